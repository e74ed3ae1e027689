/* SPDX-License-Identifier: MIT */
/* tensor/tape/op_history.h: how an operator is remembered. */
#ifndef PH_TENSOR_TAPE_OP_HISTORY_H
#define PH_TENSOR_TAPE_OP_HISTORY_H
#include "tensor/core/tensor.h"
#include "tensor/tape/grad_def.h"

typedef struct ph__op ph__op;                 /* op.h */
typedef struct ph__leaf_edges ph__leaf_edges; /* node.h */

/* Makes the node (op.tracked must be set): gives its zeroed state (never NULL on success, also
 * for 0 bytes). */
void *ph__op_track(ph__op *op, const ph__grad_def *def, size_t saved_count);
/* The same, where the last operands are those of leaf_edges (ph__op_leaf_edges), as they were. */
void *ph__op_track_leaves(ph__op *op, const ph__grad_def *def, size_t saved_count,
                          ph__leaf_edges *leaf_edges);
/* Edges to leaves for the nodes of many calls; one reference, the caller's. NULL: no host
 * memory. */
ph__leaf_edges *ph__op_leaf_edges(const ph_tape *tape, ph_tensor *const *leaves, size_t count);
/* Keeps x (operand, output or scratch; NULL is kept as NULL) for backward. */
void ph__op_save(ph__op *op, size_t index, ph_tensor *x);
#endif
