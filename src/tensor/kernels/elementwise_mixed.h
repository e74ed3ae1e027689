/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_mixed.h: sums of operands of two dtypes. */
#ifndef PH_TENSOR_KERNELS_ELEMENTWISE_MIXED_H
#define PH_TENSOR_KERNELS_ELEMENTWISE_MIXED_H
#include "tensor/tape/op.h"

/* out = x + y for f32 out and x, and y of f16 or bf16: what a cast of y would give. All are of one
 * shape. False: the tape has failed. */
bool ph__elementwise_add_mixed(ph__op *op, ph_tensor *out, ph_tensor *x, ph_tensor *y);
extern ph__kernel_def *const ph__mixed_kernels[]; /* NULL-terminated */
#endif
