/* SPDX-License-Identifier: MIT */
/* nn/graphed/replay.c: replays of forwards with breaks. */
#include "nn/graphed/replay.h"
#include "base/unwind.h"

typedef struct replaying {
    ph__callable_graph *callable_graph;
    ph__shared_pool *shared;
} replaying;

static void note_replay(void *what)
{
    const replaying *r = what;
    (void)ph__callable_graph_replayed(r->callable_graph, r->shared);
}

ph_status ph__replay_segments(const ph_tape *tape, ph__callable *callable,
                              ph__callable_graph *callable_graph, size_t values, uint64_t *number)
{
    replaying r = {callable_graph, callable->set->shared};
    PH_TRY(ph_graph_slots_set(callable_graph->first, callable->values, values));
    PH__UNWIND unwind = {note_replay, &r};
    ph_status status = ph_graph_replay(callable_graph->graph, tape->stream);
    unwind.undo = NULL;
    *number = ph__callable_graph_replayed(callable_graph, callable->set->shared);
    return status;
}
