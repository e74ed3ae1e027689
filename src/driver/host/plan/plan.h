/* SPDX-License-Identifier: MIT */
/* driver/host/plan/plan.h: the compiled form of a DAG, and its run. Knows workers, nothing else of
 * the device.
 * - A plan starts as one list in topological order, run by the calling thread.
 * - Its first runs are timed node by node. If the measured bodies are worth it, it then becomes
 *   lanes: one for each worker, serial runs inside a lane without atomics, one flag for each edge
 *   between lanes, large kernels split by blocks.
 * - Tiny nodes stay on the caller, in order: a hand-over costs more than their run. */
#ifndef PH_DRIVER_HOST_PLAN_PLAN_H
#define PH_DRIVER_HOST_PLAN_PLAN_H
#include "base/rng.h"
#include "driver/host/plan/workers.h"
#include <phonograph/kernel.h>

typedef struct ph__plan ph__plan;

/* Every node is a kernel to the plan: copies, fills and host functions are functions of this
 * shape over one block. */
typedef struct ph__plan_node {
    ph_host_kernel_fn fn; /* never NULL: an empty node has an empty function */
    const void *args;     /* stays at this address for the plan's life */
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    /* waits for the outside (host functions, external events): the whole plan stays serial */
    bool may_block;
    bool is_inline; /* short, and waits for nothing: may run on the thread that launches the plan */
    const uint32_t *dependencies; /* indices below this node's own */
    uint32_t dependency_count;
} ph__plan_node;

/* Compiles; everything that a run needs is allocated here. workers may be NULL: always serial.
 * NULL when out of memory. */
ph__plan *ph__plan_create(const ph__plan_node *nodes, size_t count, ph__workers *workers);
void ph__plan_destroy(ph__plan *plan); /* takes NULL; not while it runs */

/* Changes a node for later runs; not while a run is going on. What was measured of the node is
 * forgotten when the function or the dimensions change. False: out of memory (more shared bytes
 * than before); nothing changed. */
bool ph__plan_set(ph__plan *plan, size_t node, const ph__plan_node *value);

/* True when the plan may run on the thread that launches it: every node is inline, and the last
 * measured run took only a few microseconds. */
bool ph__plan_is_tiny(const ph__plan *plan);

/* While it is on each run takes down when each node ran: from the start of its first block to
 * the end of its last one; a node that did not run has two zeros. Not while a run is going on.
 * False: out of memory, and it is off. A run that is measured is as one that is not, but for the
 * clock, and nothing is learnt from it. */
typedef struct ph__plan_time {
    uint64_t start_ns, end_ns;
} ph__plan_time;
bool ph__plan_measure(ph__plan *plan, bool on);
/* by node, of the last run; NULL while it is off */
const ph__plan_time *ph__plan_times(const ph__plan *plan);

/* Of host memory. Not while a change may make room for more shared bytes. */
size_t ph__plan_bytes(const ph__plan *plan);

/* For tests and benchmarks. lanes: 0 lets the plan decide (the default), 1 keeps it serial, more
 * forces lanes (at most the workers'). */
void ph__plan_force_lanes(ph__plan *plan, unsigned lanes);
typedef struct ph__plan_stats {
    unsigned lanes;      /* of the next run */
    size_t tasks, flags; /* tasks of the schedule, edges between lanes */
    uint64_t runs, parallel_runs;
    double serial_ns,
        predicted_ns; /* measured sum of bodies; the schedule's predicted time; 0 when not known */
} ph__plan_stats;
void ph__plan_get_stats(ph__plan_stats *out, const ph__plan *plan);
#endif
