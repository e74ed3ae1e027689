/* SPDX-License-Identifier: MIT */
/* tensor/operators/reductions.h: sums of gradients. */
#ifndef PH_TENSOR_OPERATORS_REDUCTIONS_H
#define PH_TENSOR_OPERATORS_REDUCTIONS_H
#include "tensor/core/tensor.h"

/* Sums x over what broadcasting shape to x's shape added
 * (elementwise and reduce families). */
ph_tensor *ph__sum_to(ph_tape *tape, ph_tensor *x, const ph_shape *shape);
/* Sums x over all axes but the last. dtype: that of x, or f32 where x is of a half type; the result
 * then has no history. */
ph_tensor *ph__sum_rows(ph_tape *tape, ph_tensor *x, ph_dtype dtype);
#endif
