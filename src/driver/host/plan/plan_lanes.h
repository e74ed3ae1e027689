/* SPDX-License-Identifier: MIT */
/* driver/host/plan/plan_lanes.h: the lanes of a plan. */
#ifndef PH_DRIVER_HOST_PLAN_PLAN_LANES_H
#define PH_DRIVER_HOST_PLAN_PLAN_LANES_H
#include "driver/host/plan/plan_nodes.h"

/* Makes the schedule for so many lanes from what is known of the nodes, and the tasks from it.
 * Allocates nothing. */
void ph__plan_make_lanes(ph__plan *plan, unsigned lanes);
/* The task of that number, of that lane: from the node as it is now. */
void ph__plan_write_lane_task(ph__plan *plan, uint32_t task, unsigned lane);
#endif
