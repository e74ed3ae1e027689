/* SPDX-License-Identifier: MIT */
/* cache/breaks.h: replays that call functions of the user's: of breaks, or hooks. */
#ifndef PH_CACHE_BREAKS_H
#define PH_CACHE_BREAKS_H
#include "cache/serve.h"
#include "graph/lifecycle/hooks.h"
#include "graph/object/graph.h"

static inline bool ph__replay_calls_functions(ph_graph *graph)
{
    return graph->segments || ph__hooks_any(&graph->hooks, PH_HOOK_REPLAY_START) ||
           ph__hooks_any(&graph->hooks, PH_HOOK_REPLAY_END);
}
/* A function between two segments may wait for other threads, so nobody waits for its end.
 * - enter_pool: before a launch of the graph. False, and the visit is kept out: a call is between
 *   two segments, or the graph has some and another call launches. True in caches without breaks.
 * - leave_pool: behind the launch, also where a function did not return. */
bool ph__visit_enter_pool(ph__visit *visit, const ph_graph *graph);
void ph__visit_leave_pool(ph__visit *visit);
bool ph__cache_is_inside(const ph_graph_cache *cache);
/* The reason of a call that is kept out. */
void ph__visit_say_kept_out(ph__visit *visit);

/* Replays a graph of the visit's entry, which is locked, and free meanwhile. With the values, if
 * there are any. */
ph_status ph__visit_replay_apart(ph__visit *visit, ph_graph *graph, const ph_slot_value *values,
                                 size_t count);
#endif
