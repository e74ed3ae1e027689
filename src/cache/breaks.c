/* SPDX-License-Identifier: MIT */
/* cache/breaks.c: replays whose functions may run the cache, or wait for other threads. */
#include "cache/breaks.h"

ph_status ph__visit_replay_apart(ph__visit *visit, ph_graph *graph, const ph_slot_value *values,
                                 size_t count)
{
    ph__visit_step_aside(visit);
    ph_status status = count ? ph_graph_replay_with(graph, visit->stream, values, count)
                             : ph_graph_replay(graph, visit->stream);
    ph__visit_step_back(visit);
    return status;
}
