/* SPDX-License-Identifier: MIT */
/* nn/graphed/recapture.h: a backward for some of the outputs. */
#ifndef PH_NN_GRAPHED_RECAPTURE_H
#define PH_NN_GRAPHED_RECAPTURE_H
#include "nn/graphed/capture.h"

/* A backward for the outputs that have a gradient, among the
 * callable's others from now on. */
ph_status ph__callable_recapture(ph__callable **out, ph__callable *callable,
                                 ph_tensor *const *out_grads, const char *call);
#endif
