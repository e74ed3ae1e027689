/* SPDX-License-Identifier: MIT */
/* tensor/core/fresh.h: tensors of a tape's own, in records that others of it had before. */
#ifndef PH_TENSOR_CORE_FRESH_H
#define PH_TENSOR_CORE_FRESH_H
#include "base/alloc.h"
#include "tensor/core/tensor.h"

/* Records of tensors that are gone, with their storages', for the next ones: linked by their
 * `tape`. One thread's at a time. */
enum {
    PH__MOST_SPARE_TENSORS = 32
};
typedef struct ph__spare_tensors {
    ph_tensor *first;
    unsigned count;
    ph__alloc_tally *tally; /* counts them; NULL: everybody's does */
    void *node; /* the block of a node (node.h) that is gone, of so many bytes; NULL: none */
    size_t node_room;
} ph__spare_tensors;
/* The block of a tensor that ph__tensor_fresh made, whose storage is gone. A handle to it that is
 * used nevertheless is of no device (released.h) until the record is used again. */
void ph__tensor_recycle(ph__spare_tensors *spares, void *block);
void ph__tensor_spares_free(ph__spare_tensors *spares);
/* A new contiguous one with memory of its own, for a tape's stream: cheaper than the two steps.
 * bytes: of its elements, which the caller has checked. spares: where its record comes from, if
 * one is there; or NULL. */
ph_status ph__tensor_fresh(ph_tensor **out, ph__spare_tensors *spares, ph__backend *backend,
                           ph_dtype dtype, const ph_shape *shape, size_t bytes, ph_stream *stream,
                           uint64_t key);
/* The same, of the shape and on the device of `like`, which is contiguous and of elements that are
 * as large or larger. */
ph_status ph__tensor_fresh_like(ph_tensor **out, ph__spare_tensors *spares, ph_dtype dtype,
                                const ph_tensor *like, ph_stream *stream, uint64_t key);
/* Another handle on the memory of `like`, of its shape and strides. NULL: no host memory. ahead:
 * references of that storage which the caller has taken (ph__reference_give). */
ph_tensor *ph__tensor_alias(ph__spare_tensors *spares, const ph_tensor *like, int *ahead);
#endif
