/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_kernels.h: the kernels of elementwise.def. */
#ifndef PH_TENSOR_KERNELS_ELEMENTWISE_KERNELS_H
#define PH_TENSOR_KERNELS_ELEMENTWISE_KERNELS_H
#include "tensor/kernels/elementwise.h"

#define PH__ELEMENTWISE(name, operands, dtypes, result, let, expression)                           \
    extern const ph__elementwise ph__elementwise_##name;
#include "tensor/kernels/elementwise.def"
#undef PH__ELEMENTWISE

/* All of them, NULL-terminated. */
extern ph__kernel_def *const ph__elementwise_kernels[];
#endif
