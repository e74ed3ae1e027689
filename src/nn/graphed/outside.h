/* SPDX-License-Identifier: MIT */
/* nn/graphed/outside.h: memory that is neither the graphs' own nor what calls bring. */
#ifndef PH_NN_GRAPHED_OUTSIDE_H
#define PH_NN_GRAPHED_OUTSIDE_H
#include "nn/graphed/capture.h"

/* STATE: the pass of the real capture uses other such memory than that of its probe: forward
 * replaces what it keeps. */
ph_status ph__making_compare(const ph__making *making, bool backward, const char *call);
#endif
