/* SPDX-License-Identifier: MIT */
/* tensor/core/storage_init.h: storages that are made in the place where they will stay. Inline, for
 * the short path of each new tensor. */
#ifndef PH_TENSOR_CORE_STORAGE_INIT_H
#define PH_TENSOR_CORE_STORAGE_INIT_H
#include "tensor/core/guard.h"
#include "tensor/core/storage.h"

/* As a part of block, which is the caller's still when it fails. The stream is not NULL. */
static inline ph_status ph__storage_init(ph__storage *storage, void *block, ph__backend *backend,
                                         size_t bytes, ph_stream *stream, uint64_t key)
{
    *storage = (ph__storage){.kind = PH__STORAGE_CACHED,
                             .backend = ph__backend_retain(backend),
                             .bytes = bytes,
                             .key = key,
                             .block = block};
    atomic_init(&storage->references, 1);
    atomic_init(&storage->last_key, key);
    atomic_init(&storage->stamp, atomic_load_explicit(&ph__replays, memory_order_relaxed));
    if (bytes == 0)
        return PH_OK;
    ph_status status = ph__guards_on()
                           ? ph__guarded_create(&storage->guarded, backend, bytes, stream)
                           : ph_malloc(&storage->data, bytes, 1, stream);
    if (__builtin_expect(status != PH_OK, 0))
        ph__backend_release(backend);
    else if (__builtin_expect(storage->guarded != NULL, 0))
        storage->data = ph__guarded_data(storage->guarded);
    return status;
}

/* As a part of a batch: data is a part of its memory. */
static inline void ph__storage_init_part(ph__storage *storage, ph__tensor_batch *batch,
                                         ph__backend *backend, char *data, size_t bytes,
                                         uint64_t key)
{
    *storage = (ph__storage){.kind = PH__STORAGE_CACHED,
                             .backend = backend,
                             .data = data,
                             .bytes = bytes,
                             .key = key,
                             .batch = batch};
    atomic_init(&storage->references, 1);
    atomic_init(&storage->last_key, key);
    atomic_init(&storage->stamp, atomic_load_explicit(&ph__replays, memory_order_relaxed));
}
#endif
