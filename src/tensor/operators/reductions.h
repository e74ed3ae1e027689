/* SPDX-License-Identifier: MIT */
/* tensor/operators/reductions.h: sums that broadcasting brings about. */
#ifndef PH_TENSOR_OPERATORS_REDUCTIONS_H
#define PH_TENSOR_OPERATORS_REDUCTIONS_H
#include "tensor/core/tensor.h"

/* Sums x over what broadcasting shape to x's shape added
 * (elementwise and reduce families). */
ph_tensor *ph__sum_to(ph_tape *tape, ph_tensor *x, const ph_shape *shape);
#endif
