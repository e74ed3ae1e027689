/* SPDX-License-Identifier: MIT */
/* nn/graphed/replay.c: replays of forwards with breaks. */
#include "nn/graphed/replay.h"
#include "base/unwind.h"

static void end_replay(void *what)
{
    ph__shared_pool_end(what);
}

ph_status ph__replay_segments(const ph_tape *tape, ph__callable *callable,
                              ph__callable_graph *callable_graph, size_t values, uint64_t *number)
{
    ph__shared_pool *shared = callable->set->shared;
    PH_TRY(ph_graph_slots_set(callable_graph->first, callable->values, values));
    ph__shared_pool_begin(shared, callable_graph);
    *number = ph__callable_graph_replayed(callable_graph, shared);
    PH__UNWIND unwind = {end_replay, shared};
    ph_status status = ph_graph_replay(callable_graph->graph, tape->stream);
    unwind.undo = NULL;
    ph__shared_pool_end(shared);
    return status;
}
