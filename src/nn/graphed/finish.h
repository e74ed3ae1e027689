/* SPDX-License-Identifier: MIT */
/* nn/graphed/finish.h: callables take the real graphs over. */
#ifndef PH_NN_GRAPHED_FINISH_H
#define PH_NN_GRAPHED_FINISH_H
#include "nn/graphed/capture.h"

/* The callable takes the real graphs over: what they leave, and what
 * they overwrite. */
ph_status ph__making_finish(ph__making *making, const char *call);
/* The same for one that has a backward alone. */
ph_status ph__making_finish_backward(ph__making *making, const char *call);
#endif
