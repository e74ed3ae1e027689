/* SPDX-License-Identifier: MIT */
/* tensor/operators/heads.h: queries, keys and values of one tensor. */
#ifndef PH_TENSOR_OPERATORS_HEADS_H
#define PH_TENSOR_OPERATORS_HEADS_H
#include <phonograph/tape.h>

/* Of x [batch, rows, 3, heads, d]: queries, keys and values, each [batch, heads, rows, d], where
 * they lie. As one operator, so that backward gives one tensor: that which attention's backward has
 * written the three gradients into, or copies of them. False: the tape has failed. */
bool ph__split_heads(ph_tape *tape, ph_tensor *out[3], ph_tensor *x);
#endif
