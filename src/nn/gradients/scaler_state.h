/* SPDX-License-Identifier: MIT */
/* nn/gradients/scaler_state.h: the state of a gradient scaler as numbers, for files that hold
 * more than it. */
#ifndef PH_NN_GRADIENTS_SCALER_STATE_H
#define PH_NN_GRADIENTS_SCALER_STATE_H
#include <phonograph/grad_scaler.h>

typedef struct ph__grad_scaler_state {
    float scale;
    double growth_factor, backoff_factor;
    int64_t growth_interval, tracker;
} ph__grad_scaler_state;

/* On a tape of the scaler's device; waits for it. STATE where the scaler is disabled. */
ph_status ph__grad_scaler_read(ph__grad_scaler_state *out, ph_tape *tape, ph_grad_scaler *scaler,
                               const char *call);
/* ARGUMENT, in the words of what (a file, say), where the numbers are none that a scaler can
 * have. Changes nothing. */
ph_status ph__grad_scaler_check_state(const ph__grad_scaler_state *state, const char *what,
                                      const char *call);
/* A state that was checked, into the memory that graphs address; on a failure nothing, but for
 * one of the device's. A disabled scaler is left alone. */
ph_status ph__grad_scaler_write(ph_tape *tape, ph_grad_scaler *scaler,
                                const ph__grad_scaler_state *state, const char *call);
#endif
