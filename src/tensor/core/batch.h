/* SPDX-License-Identifier: MIT */
/* tensor/core/batch.h: tensors that are made together: one allocation on the device, and one on the
 * host, for all. */
#ifndef PH_TENSOR_CORE_BATCH_H
#define PH_TENSOR_CORE_BATCH_H
#include "tensor/core/storage_init.h"
#include "tensor/core/tensor.h"
#include <string.h>

/* Each tensor has a storage of its own: its version, its stream, what is told of it. Their memory
 * is one block of the allocator's, which goes with the last of them. */
typedef struct ph__batch_record {
    ph_tensor tensor;
    ph__storage storage;
} ph__batch_record;
struct ph__tensor_batch {
    atomic_int references; /* of its maker, and of each storage, also of those to come */
    ph__backend *backend;  /* retained */
    char *memory;
    size_t bytes, used;
    uint64_t key;
    size_t count, used_count;
    ph__batch_record at[];
};

enum {
    PH__TENSOR_BATCH_ALIGNMENT = 512 /* of each tensor, as of each block of the allocator's */
};

/* Room for `count` tensors and `bytes` bytes, uninitialised, for a tape's tensors; the caller's,
 * until it ends it. */
ph_status ph__tensor_batch_create(ph__tensor_batch **out, ph__backend *backend, size_t count,
                                  size_t bytes, ph_stream *stream, uint64_t key);
/* The next tensor, contiguous, with the next `bytes` of the memory, more than 0, which the caller
 * has checked. NULL: there is no room, in either. One reference, the caller's. */
ph_tensor *ph__tensor_batch_acquire(ph__tensor_batch *batch, ph_dtype dtype, const ph_shape *shape,
                                    size_t bytes);
/* The next record, its storage made. NULL: there is no room. */
static inline ph__batch_record *ph__batch_next(ph__tensor_batch *batch, size_t bytes)
{
    const size_t rounded = (bytes + PH__TENSOR_BATCH_ALIGNMENT - 1) &
                           ~(size_t)(PH__TENSOR_BATCH_ALIGNMENT - 1),
                 room = batch->bytes - batch->used;
    if (batch->used_count == batch->count || bytes > room)
        return NULL;
    ph__batch_record *both = &batch->at[batch->used_count++];
    ph__storage_init_part(&both->storage, batch, batch->backend, batch->memory + batch->used, bytes,
                          batch->key);
    batch->used += rounded < room ? rounded : room;
    return both;
}
/* As ph__tensor_batch_acquire, of the dtype and shape of `like`, which is contiguous and whose
 * elements have so many bytes. Inline: steps of a training make one for each parameter. */
static inline ph_tensor *ph__tensor_batch_acquire_like(ph__tensor_batch *batch,
                                                       const ph_tensor *like, size_t bytes)
{
    ph__batch_record *both = ph__batch_next(batch, bytes);
    if (!both)
        return NULL;
    ph_tensor *x = &both->tensor;
    ph__tensor_renew(x, both->storage.data);
    x->dtype = like->dtype;
    x->shape = like->shape;
    memcpy(x->stride, like->stride, sizeof x->stride);
    x->count = like->count;
    x->contiguous = x->in_block = true;
    x->storage = &both->storage;
    return x;
}
/* No further tensor comes: by the maker, once. Takes NULL. */
void ph__tensor_batch_end(ph__tensor_batch *batch);
/* By a storage of it. The last of all gives the memory back in the order of the stream that it was
 * made for. */
void ph__tensor_batch_release(ph__tensor_batch *batch);
void ph__tensor_batch_release_many(ph__tensor_batch *batch, int count); /* by so many of them */
char *ph__tensor_batch_memory(const ph__tensor_batch *batch);
#endif
