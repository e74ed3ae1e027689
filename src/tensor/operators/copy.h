/* SPDX-License-Identifier: MIT */
/* tensor/operators/copy.h: copies of operands, and changes in place. */
#ifndef PH_TENSOR_OPERATORS_COPY_H
#define PH_TENSOR_OPERATORS_COPY_H
#include "tensor/tape/op.h"

/* x itself when it is contiguous, or a copy without history; NULL for NULL, and once the tape
 * has failed. */
ph_tensor *ph__dense(ph_tape *tape, ph_tensor *x);
/* Casts of two tensors of f32 that are contiguous and have elements, to f16 or bf16: in one launch,
 * and otherwise as two ph_cast. False: the tape has failed. */
bool ph__cast_two(ph_tape *tape, ph_tensor *out[2], ph_tensor *const in[2], ph_dtype dtype);
/* Begins an operator that changes in[0] in place: one of whose elements several are one in
 * memory, as where it is expanded, is refused. */
bool ph__op_change_begin(ph__op *op, ph_tape *tape, const char *name, ph_tensor *const *in,
                         size_t count);
#endif
