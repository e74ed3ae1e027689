/* SPDX-License-Identifier: MIT */
/* nn/graphed/touched.h: memory outside of a callable's graphs that they use. */
#ifndef PH_NN_GRAPHED_TOUCHED_H
#define PH_NN_GRAPHED_TOUCHED_H
#include "nn/graphed/capture.h"

/* Holds the memory that the real graph of the pass uses, from now on, and records the memory that
 * it writes. */
ph_status ph__making_hold(ph__making *making, bool backward, const char *call);
#endif
