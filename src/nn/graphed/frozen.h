/* SPDX-License-Identifier: MIT */
/* nn/graphed/frozen.h: numbers of the host that change between captures of one pass. Replays keep
 * those of their own capture. */
#ifndef PH_NN_GRAPHED_FROZEN_H
#define PH_NN_GRAPHED_FROZEN_H
#include "nn/graphed/capture.h"

/* Warns of the first number that differs between two captures of a pass, once for a callable.
 * moved: inputs lie elsewhere in `probe`. Then only parameters count that their kernel declares as
 * values, or that operators of the library give: others may follow from addresses. */
ph_status ph__frozen_report(const ph__trial *real, const ph__trial *probe, bool backward,
                            bool moved, const char *call);
#endif
