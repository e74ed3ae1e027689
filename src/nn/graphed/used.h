/* SPDX-License-Identifier: MIT */
/* nn/graphed/used.h: backward for the outputs that a loss used. */
#ifndef PH_NN_GRAPHED_USED_H
#define PH_NN_GRAPHED_USED_H
#include "nn/graphed/callable.h"

/* The backward for the gradients that came: the callable itself where all
 * its outputs have one, else one that was captured for these outputs, or is now. NULL: the tape has
 * failed. */
ph__callable *ph__callable_used(ph_tape *tape, ph__callable *callable, ph_tensor *const *out_grads);
/* "[0], [2]": the outputs that have a gradient. */
void ph__callable_name_used(char *text, size_t size, const ph__callable *other);
#endif
