/* SPDX-License-Identifier: MIT */
/* driver/host/plan/plan_lanes.c: the lanes of a plan: a schedule of what is known of its nodes, and
 * the tasks of the lanes. */
#include "driver/host/plan/plan_lanes.h"

#define UNMEASURED_BLOCK_NS                                                                        \
    1000.0f /* for schedules that are asked for before anything was measured */

void ph__plan_write_lane_task(ph__plan *plan, uint32_t task, unsigned lane)
{
    const ph__schedule_task *from = &plan->schedule.tasks[task];
    ph__plan_task *to = &plan->lane_tasks[task];
    *to = plan->serial[from->node];
    to->range.begin = from->begin;
    to->range.end = from->end;
    to->range.shared = ph__plan_shared_of(plan, from->node, lane);
}

/* Nodes that run the same function over as many blocks mostly do the same work, and what tells
 * them apart is noise. Equal costs make orderly schedules with few waits, so those near the mean
 * of their kind get the mean. */
typedef struct kind {
    ph_host_kernel_fn fn;
    uint64_t blocks;
    double sum;
    uint32_t count;
} kind;

enum {
    KINDS = 64 /* a power of two; nodes of further kinds keep their own cost */
};

static kind *kind_of(const ph__plan *plan, uint32_t node, kind kinds[])
{
    ph_host_kernel_fn fn = plan->serial[node].fn;
    uint64_t hash =
        ((uint64_t)(uintptr_t)fn ^ plan->blocks[node] << 32) * UINT64_C(0x9e3779b97f4a7c15);
    kind *found = &kinds[hash >> 58];
    if (found->count == 0) {
        found->fn = fn;
        found->blocks = plan->blocks[node];
    }
    return found->fn == fn && found->blocks == plan->blocks[node] ? found : NULL;
}

static void level_costs(ph__plan *plan)
{
    kind kinds[KINDS] = {{0}};
    for (uint32_t n = 0; n < plan->count; n++) {
        kind *same = kind_of(plan, n, kinds);
        if (same) {
            same->sum += (double)plan->planned_ns[n];
            same->count++;
        }
    }
    for (uint32_t n = 0; n < plan->count; n++) {
        const kind *same = kind_of(plan, n, kinds);
        if (!same)
            continue;
        float mean = (float)(same->sum / same->count), off = plan->planned_ns[n] - mean;
        if (off < mean / 2 && off > -mean / 3)
            plan->planned_ns[n] = mean;
    }
}

/* The clock's own cost was subtracted from each node only roughly, so the sum may exceed what a
 * whole run takes. */
static void estimate_costs(ph__plan *plan)
{
    double sum = 0;
    for (uint32_t n = 0; n < plan->count; n++) {
        float cost = plan->cost_ns[n];
        plan->planned_ns[n] = cost >= 0 ? cost : UNMEASURED_BLOCK_NS * (float)plan->blocks[n];
        sum += (double)plan->planned_ns[n];
    }
    if (plan->choice.serial_known && sum > plan->choice.serial_ns)
        for (uint32_t n = 0; n < plan->count; n++)
            plan->planned_ns[n] *= (float)(plan->choice.serial_ns / sum);
    level_costs(plan);
}

void ph__plan_make_lanes(ph__plan *plan, unsigned lanes)
{
    estimate_costs(plan);
    const ph__schedule_graph graph = {.count = plan->count,
                                      .dependency_begin = plan->dependency_begin,
                                      .dependencies = plan->dependencies,
                                      .blocks = plan->blocks,
                                      .cost_ns = plan->planned_ns};
    ph__schedule_build(&plan->schedule, &graph, lanes);
    plan->scheduled = lanes;
    for (unsigned lane = 0; lane < lanes; lane++)
        for (uint32_t t = plan->schedule.lane[lane].first_task;
             t < plan->schedule.lane[lane].end_task; t++)
            ph__plan_write_lane_task(plan, t, lane);
}
