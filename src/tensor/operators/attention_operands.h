/* SPDX-License-Identifier: MIT */
/* tensor/operators/attention_operands.h: how attention's operands and results lie in memory. */
#ifndef PH_TENSOR_OPERATORS_ATTENTION_OPERANDS_H
#define PH_TENSOR_OPERATORS_ATTENTION_OPERANDS_H
#include "tensor/operators/attention.h"
#include "tensor/tape/op.h"

/* As [batch, heads, rows, d], with dense rows. */
typedef struct ph__attention_operand {
    ph_tensor *x;
    int64_t batch, stride[3]; /* of the batch, heads, rows */
} ph__attention_operand;

/* x, or a copy of it. False: the tape has failed. */
bool ph__attention_operand_of(ph__op *op, ph__attention_operand *out, ph_tensor *x);
/* Addresses, strides and sizes of the operands; g NULL: none. */
ph__attention_args ph__attention_args_of(const ph__attention_operand *q,
                                         const ph__attention_operand *k,
                                         const ph__attention_operand *v,
                                         const ph__attention_operand *g, bool causal, double scale);

/* A new tensor of x's shape, dtype, and order of heads and rows in memory. */
ph_tensor *ph__attention_result(ph__op *op, const ph_tensor *x);
/* Where x are the queries, keys and values of one dense tensor [.., rows, 3, heads, d]: new
 * tensors that lie so too; else NULLs. False: the tape has failed. */
bool ph__attention_packed_gradients(ph__op *op, ph_tensor *out[3], ph_tensor *const x[3]);
/* The tensor that three lie in so, as a view of their memory. NULL: they do not, or the tape has
 * failed. */
ph_tensor *ph__attention_unpacked(ph__op *op, ph_tensor *const x[3]);
#endif
