/* SPDX-License-Identifier: MIT */
/* tensor/kernels/indexing_sort.h: sorts the elements of an index by where they point. */
#ifndef PH_TENSOR_KERNELS_INDEXING_SORT_H
#define PH_TENSOR_KERNELS_INDEXING_SORT_H
#include "tensor/kernels/indexing_kernels.h"

/* The numbers of an index's elements, by where they point, equal ones
 * in order. */
typedef struct ph__sorted {
    ph_tensor *keys, *order; /* u32; scratch of the operator */
    int64_t total;
} ph__sorted;
/* total elements, below 2^32 - 1, as are all places: `none` is one behind the last. Those out of
 * range come last. False: the tape has failed. */
bool ph__sort_index(ph__op *op, ph__sorted *out, const ph_tensor *index, const ph__places *at,
                    int64_t none);
#endif
