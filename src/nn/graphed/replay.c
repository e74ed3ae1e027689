/* SPDX-License-Identifier: MIT */
/* nn/graphed/replay.c: replays of forwards with breaks, and those that failed. */
#include "nn/graphed/replay.h"
#include "base/unwind.h"

/* Segments are those of one capture. */
bool ph__callable_graph_is_there(const ph__callable_graph *callable_graph)
{
    ph_graph *first = NULL, *graph = callable_graph->graph;
    if (ph_graph_get_state(graph) != PH_GRAPH_READY)
        return false;
    return !callable_graph->first ||
           (ph_graph_segment(&first, graph, 0) == PH_OK && first == callable_graph->first);
}

ph_status ph__callable_graph_failed(ph_status status, const ph__callable *callable,
                                    const ph__callable_graph *callable_graph)
{
    return status == PH_OK || ph__callable_graph_is_there(callable_graph)
               ? status
               : ph_fail(PH_ERROR_STATE,
                         "callable '%s': the program has reset or destroyed its graph, which "
                         "ph_graphed_callable_graphs lends for inspection and uploads; make the "
                         "callable anew",
                         callable->original->name);
}

static void end_replay(void *what)
{
    ph__shared_pool_end(what);
}

ph_status ph__replay_segments(const ph_tape *tape, ph__callable *callable,
                              ph__callable_graph *callable_graph, size_t values, uint64_t *number)
{
    ph__shared_pool *shared = callable->set->shared;
    if (!ph__callable_graph_is_there(callable_graph))
        return ph__callable_graph_failed(PH_ERROR_STATE, callable, callable_graph);
    PH_TRY(ph_graph_slots_set(callable_graph->first, callable->values, values));
    ph__shared_pool_begin(shared, callable_graph);
    *number = ph__callable_graph_replayed(callable_graph, shared);
    PH__UNWIND unwind = {end_replay, shared};
    ph_status status = ph_graph_replay(callable_graph->graph, tape->stream);
    unwind.undo = NULL;
    ph__shared_pool_end(shared);
    return status;
}
