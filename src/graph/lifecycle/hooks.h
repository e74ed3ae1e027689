/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/hooks.h: user callbacks at the points of a graph's life. */
#ifndef PH_GRAPH_LIFECYCLE_HOOKS_H
#define PH_GRAPH_LIFECYCLE_HOOKS_H
#include "graph/object/graph.h"

extern ph__hook_set ph__process_hooks;

/* Whether anybody wants to be called: two relaxed loads. */
static inline bool ph__hooks_any(const ph__hook_set *set, ph_graph_hook_point point)
{
    return (atomic_load_explicit(&set->counts[point], memory_order_relaxed) |
            atomic_load_explicit(&ph__process_hooks.counts[point], memory_order_relaxed)) != 0;
}

/* Runs the process's hooks, then the graph's, in order of registration. The graph's first
 * failure ends it and is returned, with the record set; at REPLAY_END and DESTROY failures are
 * logged and all run. The process's failures are always logged. Marks the graph as busy; the
 * caller calls ph__graph_leave when its own work is done. */
ph_status ph__hooks_run(ph_graph *graph, ph_graph_hook_point point, ph_stream *stream,
                        uint64_t exec_id);
/* The graph goes: its hooks are never called again, their handles stay valid until removed. */
void ph__hooks_detach(ph__hook_set *set);
#endif
