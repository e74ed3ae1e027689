/* SPDX-License-Identifier: MIT */
/* tensor/kernels/indexing_sort.h: sums at the places that an index names, in a fixed order. */
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
/* out[o][place][r] = (onto: +) the sum of src[o][i][r] over all i that point there. All dtypes
 * but bool. out is dense, of n places and inner elements at each; places that nothing points to
 * are left alone. */
bool ph__add_sorted(ph__op *op, const ph__sorted *sorted, const ph_tensor *src, ph_tensor *out,
                    int64_t outer, int64_t n, int64_t inner, bool onto);
#endif
