/* SPDX-License-Identifier: MIT */
/* nn/graphed/prove.h: slots of the real graphs. */
#ifndef PH_NN_GRAPHED_PROVE_H
#define PH_NN_GRAPHED_PROVE_H
#include "nn/graphed/capture.h"

/* Slots of the real graphs. *again: something could not be proved: its
 * callable copies from now on, and all is to be captured anew. */
ph_status ph__making_prove_forward(ph__making *making, bool *again, const char *call);
ph_status ph__making_prove_backward(ph__making *making, bool *again, const char *call);
/* From the next captures on it copies all that comes. */
void ph__callable_copy_all(ph__callable *callable, const char *reason);
#endif
