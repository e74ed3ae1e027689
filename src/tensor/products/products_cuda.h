/* SPDX-License-Identifier: MIT */
/* tensor/products/products_cuda.h: products by a GPU's cuBLASLt. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_CUDA_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_CUDA_H
#include "tensor/products/products.h"

ph__cublas *ph__cublas_create(ph_device *device, uint32_t multiprocessors);
void ph__cublas_destroy(ph__cublas *cublas, ph_device *device);
bool ph__product_cuda(ph__op *op, ph__cublas *cublas, const ph__product *product);
/* Before each capture that this library begins on the device: kernels may be learned in it. */
void ph__cublas_expect_capture(ph__cublas *cublas);
#endif
