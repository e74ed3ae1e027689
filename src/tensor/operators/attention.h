/* SPDX-License-Identifier: MIT */
/* tensor/operators/attention.h: what the kernels of attention are given. */
#ifndef PH_TENSOR_OPERATORS_ATTENTION_H
#define PH_TENSOR_OPERATORS_ATTENTION_H
#include "tensor/backend/kernels.h"

/* Parameters of cuda/attention.cu and cuda/attention_simple.cu.
 * - Forward reads q, k, v and writes o and lse: the log of the row's sum of exponentials, in the
 *   type to compute in; -infinity for rows that see nothing.
 * - Backward's pass by queries reads them and g, and writes delta (the row's sum of o g) and dq
 *   (NULL: only delta). Its pass by keys comes after it and writes dk and dv (both, or neither).
 * - Strides, in elements, are those of the batch, heads and rows; elements of a row lie densely.
 *   Those of o, dq, dk and dv are even where d is. lse and delta are contiguous: [batch, heads, t].
 * - A block has `rows` queries or keys of one head. The block number is tile * (batch * heads) +
 *   batch * heads + head. For queries the last tile comes first: it has the most work under
 *   causal. */
typedef struct ph__attention_args {
    const void *q, *k, *v, *g;
    void *o, *lse, *delta, *dq, *dk, *dv;
    int64_t q_s[3], k_s[3], v_s[3], g_s[3], o_s[3], dq_s[3], dk_s[3], dv_s[3]; /* strides */
    double scale;
    uint32_t heads, kv_heads, tq, tk, d, causal;
    uint32_t vectors; /* rows of q, k, v and g may be read 16 bytes at a time */
    uint32_t rows;
} ph__attention_args;

extern ph__kernel_def *const ph__attention_kernels[]; /* NULL-terminated */
#endif
