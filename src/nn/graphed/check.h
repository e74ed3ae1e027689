/* SPDX-License-Identifier: MIT */
/* nn/graphed/check.h: whether a call is one that the graphs were made for. */
#ifndef PH_NN_GRAPHED_CHECK_H
#define PH_NN_GRAPHED_CHECK_H
#include "nn/graphed/callable.h"

/* Whether a call is one that the graphs were made for; false: the tape
 * has failed, and says what differs. */
bool ph__callable_check(ph_tape *tape, ph__callable *callable, ph_tensor *const *in);
#endif
