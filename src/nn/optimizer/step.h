/* SPDX-License-Identifier: MIT */
/* nn/optimizer/step.h: a step that the device may skip, and that divides its gradients. */
#ifndef PH_NN_OPTIMIZER_STEP_H
#define PH_NN_OPTIMIZER_STEP_H
#include "nn/optimizer/optimizer.h"

/* ph_optimizer_step in the name of call, on a tape that has not failed.
 * grad_scale, found_inf: scalars of the device in f32, or NULL. Gradients are divided by the
 * first (multiplied by its reciprocal, rounded to f32), and stay as they are. Where the second is
 * not 0 when the device gets there, parameters, state and counters stay as they are. Of an
 * optimizer whose steps the host counts, found_inf is read: the call waits. Legal in a capture
 * (memory that the graph must keep is the caller's matter). */
void ph__optimizer_step(ph_tape *tape, ph_optimizer *optimizer, ph_tensor *grad_scale,
                        ph_tensor *found_inf, const char *call);
#endif
