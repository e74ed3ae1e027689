/* SPDX-License-Identifier: MIT */
/* nn/graphed/check.h: whether a call is one that the graphs were made for. */
#ifndef PH_NN_GRAPHED_CHECK_H
#define PH_NN_GRAPHED_CHECK_H
#include "nn/graphed/callable.h"

/* Whether the module is in the mode, training or evaluation, that it was captured in. */
bool ph__callable_is_in_mode(const ph__callable *callable);
/* Whether a call is one that the graphs were made for; false: the tape
 * has failed, and says what differs. */
bool ph__callable_check(ph_tape *tape, ph__callable *callable, ph_tensor *const *in);
#endif
