/* SPDX-License-Identifier: MIT */
/* driver/host/plan/schedule.h: which lane runs which node of a DAG, in what order, and what it
 * waits for; data only, nothing runs. */
#ifndef PH_DRIVER_HOST_PLAN_SCHEDULE_H
#define PH_DRIVER_HOST_PLAN_SCHEDULE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PH__SCHEDULE_LANES = 64 /* at most */
};

/* Costs of the hardware in a schedule: spinning hand-overs, as measured between two processors. */
/* From the end of a task until another lane goes on because of it. */
#define PH__HAND_OVER_NS 150.0f
/* The cost of a wait for the lane that makes it, even when nothing is left to wait for. */
#define PH__WAIT_NS      40.0f
#define PH__RISK_NS      100.0f  /* an extra cost of a wait when schedules are compared */
#define PH__SPLIT_NS     1000.0f /* kernels that cost more are split by blocks ... */
#define PH__SPLIT_MIN_NS 400.0f  /* ... into parts that cost at least so much */

/* A DAG, nodes in topological order. Node n depends on dependencies[dependency_begin[n] ..
 * dependency_begin[n + 1]), each below n. */
typedef struct ph__schedule_graph {
    uint32_t count;
    const uint32_t *dependency_begin, *dependencies;
    const uint64_t *blocks;
    const float *cost_ns;
} ph__schedule_graph;

/* Blocks [begin, end) of a node. */
typedef struct ph__schedule_task {
    uint32_t node;
    uint64_t begin, end;
} ph__schedule_task;

/* Until `lane` has finished its first `tasks` tasks. */
typedef struct ph__schedule_wait {
    uint32_t lane, tasks;
} ph__schedule_wait;

/* Consecutive tasks of a lane, run without any check: first the waits, then tasks [first, end),
 * then, if somebody waits for it, the lane says how far it is. All indices are into the
 * schedule's arrays. */
typedef struct ph__schedule_segment {
    uint32_t first, end;
    uint32_t wait_first, wait_end;
    bool publish;
} ph__schedule_segment;

/* Tasks [first_task, end_task) in this order, as segments. */
typedef struct ph__schedule_lane {
    uint32_t first_task, end_task;
    uint32_t first_segment, end_segment;
} ph__schedule_lane;

typedef struct ph__schedule_scratch ph__schedule_scratch;
typedef struct ph__schedule {
    unsigned lanes;
    ph__schedule_lane lane[PH__SCHEDULE_LANES];
    ph__schedule_task *tasks;
    ph__schedule_segment *segments;
    ph__schedule_wait *waits;
    uint32_t task_count, wait_count;
    double predicted_ns;
    uint32_t task_capacity;
    size_t bytes; /* of all that it has allocated */
    ph__schedule_scratch *scratch;
} ph__schedule;

/* Makes room for schedules of DAGs of at most nodes and edges; false when out of memory. */
bool ph__schedule_init(ph__schedule *schedule, uint32_t nodes, size_t edges, unsigned max_lanes);
void ph__schedule_free(ph__schedule *schedule); /* takes one that is all zero */

/* Plans for 2 <= lanes <= max_lanes; allocates nothing and cannot fail. The order of all tasks
 * in which it thought is a legal one for one thread, so lanes that wait for each other always
 * get on. */
void ph__schedule_build(ph__schedule *schedule, const ph__schedule_graph *graph, unsigned lanes);

/* Where a node's parts went. */
uint32_t ph__schedule_parts(const ph__schedule *schedule, uint32_t node);
uint32_t ph__schedule_part(const ph__schedule *schedule, uint32_t node,
                           uint32_t part); /* an index into tasks */
#endif
