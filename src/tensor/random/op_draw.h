/* SPDX-License-Identifier: MIT */
/* tensor/random/op_draw.h: random numbers of an operator. */
#ifndef PH_TENSOR_RANDOM_OP_DRAW_H
#define PH_TENSOR_RANDOM_OP_DRAW_H
#include "tensor/generator/draw.h"
#include "tensor/tape/op.h"

/* See ph__generator_draw: from the tape's generator on the tape's stream. False: the tape has
 * failed. */
bool ph__op_draw(ph__draw *out, ph__op *op, unsigned words);
#endif
