/* SPDX-License-Identifier: MIT */
/* graph/inputs/liveness.h: whether the inputs of a graph are still allocated. */
#ifndef PH_GRAPH_INPUTS_LIVENESS_H
#define PH_GRAPH_INPUTS_LIVENESS_H
#include "graph/object/graph.h"

void ph__graph_set_checks(ph_graph *graph, const ph_capture_options *options);
void ph__graph_set_inputs(ph_graph *graph, ph__inputs *inputs); /* takes them over */
/* Makes the inputs of the record when they are first needed; at once where every replay checks
 * them. */
ph_status ph__graph_acquire_inputs(ph_graph *graph, const char *call);
ph_status ph__graph_collect_inputs(ph_graph *graph, const char *call);
/* Looks at the inputs: STALE_INPUT, or PH_OK and remembers the count of frees. */
enum {
    PH__LIVE_AS_CAPTURED = 1, /* as the template has them, whatever the slots are set to */
    PH__LIVE_FOREIGN = 2,     /* asks the driver about memory of other code's, too */
    PH__LIVE_ONLY_ASK = 4     /* nothing depends on the answer */
};
ph_status ph__graph_check_live(ph_graph *graph, unsigned how, const char *call);
/* Of a graph that checks, at each replay: whether there is anything to look at. The first is for
 * replays that are nothing but a launch; those that it lets pass are counted behind it. */
static inline bool ph__graph_lives_as_before(const ph_graph *graph)
{
    if (atomic_load_explicit(&graph->watch.free_count, memory_order_acquire) != graph->free_count)
        return false;
    if (!graph->foreign || !graph->foreign_every)
        return true;
    return graph->foreign_turn + 1 < graph->foreign_every;
}
static inline void ph__graph_lived(ph_graph *graph)
{
    graph->foreign_turn += graph->foreign && graph->foreign_every;
}
static inline bool ph__graph_must_check_live(ph_graph *graph, unsigned *how)
{
    *how = 0;
    if (graph->foreign && graph->foreign_every && ++graph->foreign_turn >= graph->foreign_every)
        *how = PH__LIVE_FOREIGN;
    return *how || atomic_load_explicit(&graph->watch.free_count, memory_order_acquire) !=
                       graph->free_count;
}
#endif
