/* SPDX-License-Identifier: MIT */
/* tensor/products/products_sum.h: sums the parts of a product. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_SUM_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_SUM_H
#include "tensor/products/products.h"

/* product's c = part[0] + part[1] .. (+ bias) (+ c where accumulate), in order; parts lie one
 * behind the other as [batch, m, n], in the dtype that is computed in. */
bool ph__product_sum(ph__op *op, const ph__product *product, const void *part, uint32_t parts);
extern ph__kernel_def *const ph__product_sum_kernels[]; /* both forms */
#endif
