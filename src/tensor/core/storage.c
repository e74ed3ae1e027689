/* SPDX-License-Identifier: MIT */
/* tensor/core/storage.c: the memory behind tensors: where it comes from, who uses it, how it
 * goes. */
#include "tensor/core/storage.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/backend/backend.h"
#include "tensor/core/batch.h"
#include "tensor/core/guard.h"
#include "tensor/core/released.h"
#include "tensor/core/relied.h"
#include "tensor/core/storage_init.h"

static const char call[] = "the memory of a tensor";

atomic_uint_fast64_t ph__replays;
atomic_uint_fast64_t ph__lent_switches;

static void init_storage(ph__storage *storage, void *block, ph__storage_kind kind,
                         ph__backend *backend, size_t bytes)
{
    *storage = (ph__storage){
        .kind = kind, .backend = ph__backend_retain(backend), .bytes = bytes, .block = block};
    atomic_init(&storage->references, 1);
    atomic_init(&storage->stamp, atomic_load_explicit(&ph__replays, memory_order_relaxed));
}

static ph_status make_storage(ph__storage **out, ph__storage_kind kind, ph__backend *backend,
                              size_t bytes)
{
    *out = ph__alloc(sizeof **out);
    if (!*out)
        return ph__fail_host_memory(call, "its note");
    init_storage(*out, *out, kind, backend, bytes);
    return PH_OK;
}

/* For memory that is made without a tape. */
static ph_stream *stream_of_none(const ph__backend *backend, uint64_t *key)
{
    ph_stream *stream = ph_memory_stream(backend->device);
    *key = stream == ph_device_default_stream(backend->device) ? 0 : PH__NO_TAPE;
    return stream;
}

ph_status ph__storage_create(ph__storage **out, ph__backend *backend, size_t bytes,
                             ph_stream *stream, uint64_t key)
{
    ph__storage *storage = ph__alloc(sizeof *storage);
    *out = NULL;
    if (!storage)
        return ph__fail_host_memory(call, "its note");
    if (!stream)
        stream = stream_of_none(backend, &key);
    ph_status status = ph__storage_init(storage, storage, backend, bytes, stream, key);
    if (status == PH_OK)
        *out = storage;
    else
        ph__free(storage);
    return status;
}

ph_status ph__storage_create_pinned(ph__storage **out, ph__backend *backend, size_t bytes)
{
    uint64_t key = 0;
    PH_TRY(make_storage(out, PH__STORAGE_PINNED, backend, bytes));
    ph_stream *stream = stream_of_none(backend, &key);
    ph_status status = ph_malloc_pinned(&(*out)->data, bytes, 1, stream);
    (*out)->key = key;
    atomic_init(&(*out)->last_key, key);
    if (status == PH_OK)
        return PH_OK;
    ph__backend_release(backend);
    ph__free(*out);
    *out = NULL;
    return status;
}

ph_status ph__storage_wrap(ph__storage **out, ph__backend *backend, void *data, size_t bytes,
                           ph_tensor_release_fn release_storage, void *user)
{
    PH_TRY(make_storage(out, PH__STORAGE_FOREIGN, backend, bytes));
    (*out)->data = data;
    (*out)->release = release_storage;
    (*out)->user = user;
    return PH_OK;
}

ph__storage *ph__storage_retain(ph__storage *storage)
{
    atomic_fetch_add_explicit(&storage->references, 1, memory_order_relaxed);
    return storage;
}

/* stream: the one that it was allocated on, or NULL. */
static void free_storage_memory(ph__storage *storage, ph_stream *stream)
{
    switch (storage->kind) {
    case PH__STORAGE_CACHED:
        if (storage->guarded)
            ph__guarded_release(storage->guarded);
        else if (stream)
            ph_free(storage->data, stream);
        else
            ph_device_free(storage->backend->device, storage->data);
        break;
    case PH__STORAGE_PINNED:
        ph_free_pinned(storage->data, NULL);
        break;
    case PH__STORAGE_FOREIGN:
        if (storage->release)
            storage->release(storage->user);
        break;
    }
}

/* The tensor that it came with may lie in the same block: nothing of it is touched any more. */
static void *release_storage(ph__storage *storage, ph_stream *stream)
{
    if (!ph__drop_reference(&storage->references))
        return NULL;
    if (storage->batch) {
        storage->backend = &ph__backend_gone;
        ph__tensor_batch_release(storage->batch);
        return NULL;
    }
    free_storage_memory(storage, stream);
    ph__backend_release(storage->backend);
    storage->backend = &ph__backend_gone;
    return storage->block;
}

void ph__storage_release(ph__storage *storage)
{
    void *block = release_storage(storage, NULL);
    if (!block)
        return;
    if (block == storage)
        ph__free(block);
    else
        ph__released_put(block);
}

void *ph__storage_release_on(ph__storage *storage, ph_stream *stream, uint64_t key)
{
    return release_storage(storage, storage->key == key ? stream : NULL);
}

ph_status ph__storage_record(ph__storage *storage, ph_stream *stream)
{
    if (!storage->data || storage->kind == PH__STORAGE_FOREIGN)
        return PH_OK;
    char *base = storage->guarded ? ph__guarded_base(storage->guarded) : storage->data;
    return ph_record_stream(storage->batch ? ph__tensor_batch_memory(storage->batch) : base,
                            stream);
}

/* The allocator orders what it gives behind earlier uses of that memory on its own stream, here
 * the default one. The first other stream waits for those; whoever comes later is ordered behind
 * that use by the caller. */
static ph_status order_behind_default(ph__storage *storage, ph_stream *stream)
{
    PH_TRY(ph_stream_wait_stream(stream, ph_device_default_stream(storage->backend->device)));
    atomic_store_explicit(&storage->ordered, true, memory_order_relaxed);
    return PH_OK;
}

ph_status ph__storage_use(ph__storage *storage, ph_stream *stream, uint64_t key)
{
    if (key == atomic_load_explicit(&storage->last_key, memory_order_relaxed))
        return PH_OK;
    if (key != storage->key) {
        PH_TRY(ph__storage_record(storage, stream));
        if (storage->key == 0 && storage->kind == PH__STORAGE_CACHED && storage->data &&
            !atomic_load_explicit(&storage->ordered, memory_order_relaxed)) {
            /* In a capture a wait would be one of the graph's: it is left to the next use
             * outside of one. */
            if (ph_stream_is_capturing(stream))
                return PH_OK;
            PH_TRY(order_behind_default(storage, stream));
        }
    }
    atomic_store(&storage->last_key, key);
    atomic_fetch_add_explicit(&storage->switches, 1, memory_order_relaxed);
    if (atomic_load_explicit(&storage->lent, memory_order_relaxed))
        atomic_fetch_add_explicit(&ph__lent_switches, 1, memory_order_relaxed);
    if (atomic_load(&storage->relied_on))
        ph__relied_changed();
    return PH_OK;
}
