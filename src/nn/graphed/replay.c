/* SPDX-License-Identifier: MIT */
/* nn/graphed/replay.c: replays of forwards with breaks, and graphs that the program has
 * reset or destroyed. */
#include "nn/graphed/replay.h"
#include "base/unwind.h"

static ph_status note_reset(const ph_graph_hook_info *info, void *user)
{
    ph__callable_graph *callable_graph = user;
    (void)info;
    callable_graph->gone = true;
    return PH_OK;
}

ph_status ph__callable_graph_watch(ph__callable_graph *callable_graph)
{
    return callable_graph->graph ? ph_graph_hook_add(&callable_graph->hook, callable_graph->graph,
                                                     PH_HOOK_DESTROY, note_reset, callable_graph)
                                 : PH_OK;
}

void ph__callable_graph_unwatch(ph__callable_graph *callable_graph)
{
    ph_graph_hook_remove(callable_graph->hook);
    callable_graph->hook = NULL;
    callable_graph->gone = false;
}

ph_status ph__callable_graph_failed(ph_status status, const ph__callable *callable,
                                    const ph__callable_graph *callable_graph)
{
    return status == PH_OK || !callable_graph->gone
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
    ph_status status = ph_graph_slots_set(callable_graph->first, callable->values, values);
    if (status != PH_OK) {
        ph__readers_forget(callable_graph, shared);
        return status;
    }
    ph__shared_pool_begin(shared, callable_graph);
    *number = ph__callable_graph_replayed(callable_graph, shared);
    PH__UNWIND unwind = {end_replay, shared};
    status = ph_graph_replay(callable_graph->graph, tape->stream);
    unwind.undo = NULL;
    ph__shared_pool_end(shared);
    return status;
}
