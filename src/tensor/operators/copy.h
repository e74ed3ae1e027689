/* SPDX-License-Identifier: MIT */
/* tensor/operators/copy.h: copies of operands, and changes in place. */
#ifndef PH_TENSOR_OPERATORS_COPY_H
#define PH_TENSOR_OPERATORS_COPY_H
#include "tensor/tape/op.h"

/* x itself when it is contiguous, or a copy without history; NULL for NULL, and once the tape
 * has failed. */
ph_tensor *ph__dense(ph_tape *tape, ph_tensor *x);
/* Begins an operator that changes in[0] in place: one that is expanded, so that several of its
 * elements are one, is refused. */
bool ph__op_change_begin(ph__op *op, ph_tape *tape, const char *name, ph_tensor *const *in,
                         size_t count);
#endif
