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
/* Replays a graph of the visit's entry, which is locked, and free meanwhile. With the values, if
 * there are any. */
ph_status ph__visit_replay_apart(ph__visit *visit, ph_graph *graph, const ph_slot_value *values,
                                 size_t count);
#endif
