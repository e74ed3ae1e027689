/* SPDX-License-Identifier: MIT */
/* driver/host/plan/rank.h: the order of planning: longest path first. */
#ifndef PH_DRIVER_HOST_PLAN_RANK_H
#define PH_DRIVER_HOST_PLAN_RANK_H
#include "driver/host/plan/attempt.h"

/* Fills scratch->keys with the nodes by rank, and scratch->successors. The result is a topological
 * order. */
void ph__schedule_rank(ph__schedule_scratch *scratch, const ph__schedule_graph *graph);
#endif
