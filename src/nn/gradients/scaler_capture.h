/* SPDX-License-Identifier: MIT */
/* nn/gradients/scaler_capture.h: the stages of a scaler's optimizers in captures and replays: a
 * capture leaves them as they were, a replay asks for what its capture met and leaves behind what
 * that came to. */
#ifndef PH_NN_GRADIENTS_SCALER_CAPTURE_H
#define PH_NN_GRADIENTS_SCALER_CAPTURE_H
#include "nn/gradients/scaler.h"

/* Before a call looks at the stage of `met` (NULL: of none), which it may change: in a capture of
 * the tape's stream the graph keeps the scaler and the optimizer. False: the tape has failed. */
bool ph__scaler_capture_begin(ph_tape *tape, ph_grad_scaler *scaler,
                              const ph__scaled_optimizer *met, const char *call);
#endif
