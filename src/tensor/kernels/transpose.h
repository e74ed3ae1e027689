/* SPDX-License-Identifier: MIT */
/* tensor/kernels/transpose.h: matrices transposed on a GPU. */
#ifndef PH_TENSOR_KERNELS_TRANSPOSE_H
#define PH_TENSOR_KERNELS_TRANSPOSE_H
#include "tensor/backend/kernels.h"
#include "tensor/tape/op.h"

/* out [columns, rows], dense, is in [rows, columns] transposed.
 * - step: elements from a row of in to the next, at least `columns`.
 * - size: bytes of an element, 2, 4 or 8.
 * - Neither is empty, and they do not overlap. On the tape's stream; false: the tape has failed. */
typedef struct ph__transposition {
    void *out;
    const void *in;
    int64_t rows, columns, step;
} ph__transposition;
bool ph__transpose(ph__op *op, const ph__transposition *t, size_t size);

extern ph__kernel_def *const ph__transpose_kernels[]; /* ends with NULL */
#endif
