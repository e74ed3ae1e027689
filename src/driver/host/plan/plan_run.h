/* SPDX-License-Identifier: MIT */
/* driver/host/plan/plan_run.h: the run of a plan. */
#ifndef PH_DRIVER_HOST_PLAN_PLAN_RUN_H
#define PH_DRIVER_HOST_PLAN_PLAN_RUN_H
#include "base/rng.h"
#include "driver/host/plan/plan.h"

/* Runs once, to the end. One run at a time. Allocates nothing. chaos: NULL, or a generator that
 * picks a random topological order and random splits of kernels. */
void ph__plan_run(ph__plan *plan, ph__rng *chaos);
#endif
