/* SPDX-License-Identifier: MIT */
/* nn/graphed/replay.c: replays of forwards with breaks, and those that failed. */
#include "nn/graphed/replay.h"
#include "base/unwind.h"

static void end_replay(void *what)
{
    ph__shared_pool_end(what);
}

__attribute__((cold)) ph_status
ph__callable_graph_failed(ph_status status, const ph__callable *callable, const ph_graph *graph)
{
    return status == PH_OK || ph_graph_get_state(graph) != PH_GRAPH_NEW
               ? status
               : ph_fail(PH_ERROR_STATE,
                         "callable '%s': the program has reset its graph, which "
                         "ph_graphed_callable_graphs lends for inspection and uploads; make the "
                         "callable anew",
                         callable->original->name);
}

ph_status ph__replay_segments(const ph_tape *tape, ph__callable *callable,
                              ph__callable_graph *callable_graph, size_t values, uint64_t *number)
{
    ph__shared_pool *shared = callable->set->shared;
    ph_status status = ph__callable_graph_check(callable_graph->graph);
    if (status == PH_OK)
        status = ph_graph_slots_set(callable_graph->first, callable->values, values);
    if (status != PH_OK)
        return ph__callable_graph_failed(status, callable, callable_graph->graph);
    ph__shared_pool_begin(shared, callable_graph);
    *number = ph__callable_graph_replayed(callable_graph, shared);
    PH__UNWIND unwind = {end_replay, shared};
    status = ph_graph_replay(callable_graph->graph, tape->stream);
    unwind.undo = NULL;
    ph__shared_pool_end(shared);
    return status;
}
