/* SPDX-License-Identifier: MIT */
/* nn/optimizer/state_memory.h: one allocation for the state that a step makes: it stays, and beside
 * what comes and goes it would keep segments from going back. */
#ifndef PH_NN_OPTIMIZER_STATE_MEMORY_H
#define PH_NN_OPTIMIZER_STATE_MEMORY_H
#include "nn/optimizer/optimizer.h"

/* Room for the state that parameters with gradients do not have yet, of the tape's stream. *out
 * NULL: there is at most one tensor to make, or no room for all in one piece. The caller releases
 * it when they are made. */
ph_status ph__optimizer_reserve_states(ph__tensor_batch **out, const ph_optimizer *optimizer,
                                       const ph_tape *tape);
#endif
