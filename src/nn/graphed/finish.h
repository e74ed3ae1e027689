/* SPDX-License-Identifier: MIT */
/* nn/graphed/finish.h: callables take the real graphs over. */
#ifndef PH_NN_GRAPHED_FINISH_H
#define PH_NN_GRAPHED_FINISH_H
#include "nn/graphed/capture.h"

/* All captures of all callables: forwards in order, backwards in
 * reverse. */
ph_status ph__callables_capture(ph__callable *const *callables, size_t count, const char *call);
/* The callable takes the real graphs over: what they leave, and what
 * they overwrite. */
ph_status ph__making_finish(ph__making *making, const char *call);
/* The same for one that has a backward alone, and where the gradients of its capture go. */
ph_status ph__making_finish_backward(ph__making *making, const char *call);
ph_status ph__making_stage_outgoing(ph__making *making, const char *call);
/* Graphs that nobody took over, and what stood for memory. */
void ph__making_clear(ph__making *making);
#endif
