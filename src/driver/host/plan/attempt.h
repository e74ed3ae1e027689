/* SPDX-License-Identifier: MIT */
/* driver/host/plan/attempt.h: one attempt at a schedule: a rule that puts each node on a lane, and
 * the prediction of its result. */
#ifndef PH_DRIVER_HOST_PLAN_ATTEMPT_H
#define PH_DRIVER_HOST_PLAN_ATTEMPT_H
#include "driver/host/plan/schedule.h"

/* One task in the order of planning. */
typedef struct ph__planned_task {
    uint32_t node, lane, position; /* position: among its lane's tasks */
    uint64_t begin, end;
    float finish;
} ph__planned_task;

struct ph__schedule_scratch {
    uint32_t extra_tasks, extra_waits; /* the budget of a split */
    uint64_t *keys, *spare_keys;       /* nodes by rank, the node's number in the low half */
    uint32_t *successors;              /* how many each node has */
    uint32_t *first_part;              /* of each node, into planned */
    uint32_t *part_count;
    uint32_t *chain;           /* of each node */
    float *chain_cost;         /* of each chain, then the chain's lane */
    uint32_t *chain_successor; /* of each node: the successor that may go on with its chain */
    ph__planned_task *planned;
    uint32_t *index;      /* of each planned task, into tasks */
    uint32_t *wait_first; /* of each task, into waits */
    bool *awaited;        /* of each task: somebody waits for it */
};

/* The rules of an attempt. */
typedef enum ph__lane_rule {
    PH__LANES_GREEDY, /* each node where it can start first, but rather where it comes from */
    /* nodes are strung to chains along far edges, and each lane gets neighbouring chains */
    PH__LANES_FAR_CHAINS,
    PH__LANES_NEAR_CHAINS /* the same along near edges */
} ph__lane_rule;
typedef struct ph__strategy {
    ph__lane_rule rule;
    bool by_rank; /* longest path first, else in the caller's order */
    bool split;
    float slack; /* PH__LANES_GREEDY: how much later a node may start to stay on its lane */
} ph__strategy;

/* The state of one attempt. */
typedef struct ph__attempt {
    ph__schedule_scratch *scratch;
    const ph__schedule_graph *graph;
    unsigned lanes;
    ph__strategy how;
    uint32_t count, left_tasks, left_waits, waits;
    unsigned last_lane;
    float free_at[PH__SCHEDULE_LANES];
    uint32_t tasks[PH__SCHEDULE_LANES];
    /* how far a lane has waited for another */
    uint32_t known[PH__SCHEDULE_LANES][PH__SCHEDULE_LANES];
    /* Of the node at hand: when what it needs from each lane is ready, and up to which task. */
    float ready[PH__SCHEDULE_LANES];
    uint32_t needed[PH__SCHEDULE_LANES];
} ph__attempt;

/* Looks at what a node depends on; returns the lane that the last of it comes from, or the lane of
 * the node before when it needs nothing. */
unsigned ph__attempt_gather(ph__attempt *a, uint32_t node);

/* No rule is good for every graph: tries some, and leaves the best in *a and its scratch; the nodes
 * were ranked before. Returns when the last lane is done. The fewer waits the better, since each is
 * a chance to be held up. */
float ph__attempt_place_best(ph__attempt *a);
#endif
