/* SPDX-License-Identifier: MIT */
/* tensor/kernels/add_sorted.h: sums at the places that an index names, in a fixed order. */
#ifndef PH_TENSOR_KERNELS_ADD_SORTED_H
#define PH_TENSOR_KERNELS_ADD_SORTED_H
#include "tensor/kernels/indexing_sort.h"

/* out[o][place][r] = (onto: +) the sum of src[o][i][r] over all i that point there. All dtypes
 * but bool. out is dense, of n places and inner elements at each; places that nothing points to
 * are left alone. */
bool ph__add_sorted(ph__op *op, const ph__sorted *sorted, const ph_tensor *src, ph_tensor *out,
                    int64_t outer, int64_t n, int64_t inner, bool onto);
#endif
