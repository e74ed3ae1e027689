/* SPDX-License-Identifier: MIT */
/* tensor/autograd/hooks_run.h: functions of the user's that see gradients, and may replace them. */
#ifndef PH_TENSOR_AUTOGRAD_HOOKS_RUN_H
#define PH_TENSOR_AUTOGRAD_HOOKS_RUN_H
#include "tensor/tape/hooks.h"

/* Runs the hooks of x, or of its node's output, in order, on a gradient. Returns the resulting
 * gradient, retained (the reference to grad is the caller's still). NULL: the tape has failed. */
ph_tensor *ph__tensor_hooks_run(ph_tape *tape, ph_tensor_hook *const *list, uint32_t output,
                                ph_tensor *grad);
#endif
