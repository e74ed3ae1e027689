/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_kernels.h: the kernels of reduce.def, of argmax and of wide sums. */
#ifndef PH_TENSOR_KERNELS_REDUCE_KERNELS_H
#define PH_TENSOR_KERNELS_REDUCE_KERNELS_H
#include "tensor/kernels/reduce.h"

#define PH__REDUCE(name, ...) extern const ph__reduce ph__reduce_##name;
#include "tensor/kernels/reduce.def"
#undef PH__REDUCE
extern const ph__reduce ph__reduce_argmax;
extern const ph__reduce ph__reduce_sum_wide;       /* of f16 and bf16, results in f32 */
extern ph__kernel_def *const ph__reduce_kernels[]; /* all of them, NULL-terminated */
#endif
