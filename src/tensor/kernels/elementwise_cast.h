/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_cast.h: kernels that copy, and change the dtype. */
#ifndef PH_TENSOR_KERNELS_ELEMENTWISE_CAST_H
#define PH_TENSOR_KERNELS_ELEMENTWISE_CAST_H
#include "tensor/kernels/elementwise.h"

/* The kernels of a copy with another dtype ([from][to], NULL where they are the same), and of a
 * plain one, by the size of an element. */
typedef struct ph__elementwise_pair {
    ph__kernel_def *flat, *strided;
} ph__elementwise_pair;
extern const ph__elementwise_pair ph__elementwise_casts[PH__ELEMENTWISE_DTYPES]
                                                       [PH__ELEMENTWISE_DTYPES],
    ph__elementwise_copies[9];
/* out[i] = in[i] of f32, cast to f16 or bf16, for i 0 and 1, in one launch. All are contiguous, and
 * have elements; both results are of one dtype. False: the tape has failed. */
bool ph__elementwise_cast_two(ph__op *op, ph_tensor *const out[2], ph_tensor *const in[2]);

/* All of them, NULL-terminated. */
extern ph__kernel_def *const ph__cast_kernels[];
#endif
