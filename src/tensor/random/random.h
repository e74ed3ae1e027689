/* SPDX-License-Identifier: MIT */
/* tensor/random/random.h: launches that operators which draw share. */
#ifndef PH_TENSOR_RANDOM_RANDOM_H
#define PH_TENSOR_RANDOM_RANDOM_H
#include "tensor/random/random_rules.h"

/* y: contiguous. Nothing is drawn for empty ones. False: the tape has failed. */
typedef bool (*ph__random_launch)(ph__op *op, ph_tensor *y, const void *user);
bool ph__random_fill(ph__op *op, ph_tensor *y, const void *numbers);  /* a ph__draw_numbers */
bool ph__random_integers(ph__op *op, ph_tensor *y, const void *span); /* a ph__span */
/* one probability for all: a double */
bool ph__random_events(ph__op *op, ph_tensor *y, const void *p);
/* a contiguous ph_tensor of floats, of y's shape */
bool ph__random_bernoulli(ph__op *op, ph_tensor *y, const void *p);
#endif
