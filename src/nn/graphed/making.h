/* SPDX-License-Identifier: MIT */
/* nn/graphed/making.h: the order of captures. */
#ifndef PH_NN_GRAPHED_MAKING_H
#define PH_NN_GRAPHED_MAKING_H
#include "nn/graphed/capture.h"

/* All captures of all callables: forwards in order, backwards in reverse. */
ph_status ph__callables_capture(ph__callable *const *callables, size_t count, const char *call);
/* Memory that stands for the gradients of inputs in the captures of backward. */
ph_status ph__making_stage_outgoing(ph__making *making, const char *call);
/* Frees graphs that nobody took over, and the stand-ins for memory. */
void ph__making_clear(ph__making *making);
#endif
