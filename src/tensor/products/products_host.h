/* SPDX-License-Identifier: MIT */
/* tensor/products/products_host.h: products by the process's BLAS, or without one. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_HOST_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_HOST_H
#include "tensor/products/products.h"

/* Looks for a BLAS once in the process: libopenblas.so.0, or what PH_BLAS names ("none": the
 * plain product). False: PH_BLAS cannot be used; the record is set. */
bool ph__blas_load(void);
bool ph__product_host(ph__op *op, const ph__product *product);
extern ph__kernel_def
    *const ph__product_kernels[]; /* host forms alone; NULL-terminated, as all such tables are */
#endif
