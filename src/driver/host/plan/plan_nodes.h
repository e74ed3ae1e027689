/* SPDX-License-Identifier: MIT */
/* driver/host/plan/plan_nodes.h: what a plan is made of, which plan.c (making and changing),
 * plan_lanes.c (its lanes) and plan_run.c (running) share. */
#ifndef PH_DRIVER_HOST_PLAN_PLAN_NODES_H
#define PH_DRIVER_HOST_PLAN_PLAN_NODES_H
#include "base/sync.h"
#include "driver/host/plan/choice.h"
#include "driver/host/plan/plan.h"
#include "driver/host/plan/schedule.h"
#include <stdalign.h>

enum {
    PH__CACHE_LINE = 64
};

/* Exactly what a call needs, one cache line a task, so that a run is a walk over an array. */
typedef struct ph__plan_task {
    ph_host_kernel_fn fn;
    const void *args;
    ph_block_range range;
} ph__plan_task;

/* How many tasks a lane has finished, counted on from run to run, so that nothing is reset in
 * between. */
typedef struct ph__plan_progress {
    alignas(PH__CACHE_LINE) atomic_uint_least64_t tasks;
} ph__plan_progress;

/* Under chaos: the blocks of a node that have not run, and the dependencies that have not
 * finished. */
typedef struct ph__plan_chaos_node {
    uint64_t next, end;
    uint32_t waiting_for;
} ph__plan_chaos_node;

struct ph__plan {
    uint32_t count;
    uint32_t blocking; /* nodes that may block */
    uint32_t handed;   /* nodes that are not inline: with one of them the plan is never tiny */
    unsigned max_lanes, forced;
    ph__workers *workers;
    ph__plan_task *serial;       /* whole nodes, in topological order */
    ph__plan_task *lane_tasks;   /* as schedule.tasks */
    ph__plan_progress *progress; /* of each lane */
    uint64_t progress_before;    /* this run's tasks are counted from here */

    uint64_t *blocks;
    size_t *shared_bytes;
    bool *may_block, *is_inline;
    char *shared; /* scratch, shared_stride bytes for each lane */
    size_t shared_stride;
    uint32_t *dependency_begin, *dependencies;
    uint32_t *successor_begin, *successors;
    ph__plan_chaos_node *chaos_nodes;
    uint32_t *chaos_ready;

    float *cost_ns;    /* the least measured; negative: not known */
    float *planned_ns; /* the times that the schedule was made from */
    ph__choice choice;
    ph__schedule schedule;
    unsigned scheduled;        /* lanes of the schedule; 0: there is none */
    bool decided;              /* lanes or not was decided from what is known */
    double build_ns, spent_ns; /* the last schedule's making; time in runs since */
    atomic_bool tiny;          /* read by threads that are about to launch */
    ph__plan_time *times;      /* of the last run, by node; NULL: runs are not measured */
    uint64_t runs, parallel_runs;
    ph__plan_time *task_times; /* by task of the schedule */
    void *memory[16];          /* for destroy: the arrays as they were allocated */
    unsigned memory_count;
    size_t memory_bytes; /* their sum, and the plan's own */
};

/* At the next cache line. */
static inline void *ph__plan_align(void *memory)
{
    uintptr_t past = (uintptr_t)memory % PH__CACHE_LINE;
    return (char *)memory + (past ? PH__CACHE_LINE - past : 0);
}

/* The shared bytes of a node that runs on the lane; NULL: it has none. */
static inline void *ph__plan_shared_of(const ph__plan *plan, uint32_t node, unsigned lane)
{
    if (plan->shared_bytes[node] == 0)
        return NULL;
    return (char *)ph__plan_align(plan->shared) + plan->shared_stride * lane;
}
#endif
