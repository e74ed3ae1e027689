/* SPDX-License-Identifier: MIT */
/* tensor/core/batch.h: tensors that are made together: one allocation on the device, and one on the
 * host, for all. */
#ifndef PH_TENSOR_CORE_BATCH_H
#define PH_TENSOR_CORE_BATCH_H
#include "tensor/core/tensor.h"

/* Each tensor has a storage of its own: its version, its stream, what is told of it. Their memory
 * is one block of the allocator's, which goes with the last of them. */
typedef struct ph__tensor_batch ph__tensor_batch;

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
/* The same, of the dtype and shape of `like`, whose elements have so many bytes. */
ph_tensor *ph__tensor_batch_acquire_like(ph__tensor_batch *batch, const ph_tensor *like,
                                         size_t bytes);
/* No further tensor comes: by the maker, once. Takes NULL. */
void ph__tensor_batch_end(ph__tensor_batch *batch);
/* By a storage of it. The last of all gives the memory back in the order of the stream that it was
 * made for. */
void ph__tensor_batch_release(ph__tensor_batch *batch);
char *ph__tensor_batch_memory(const ph__tensor_batch *batch);
#endif
