/* SPDX-License-Identifier: MIT */
/* cache/breaks.c: replays whose functions may run the cache, or wait for other threads. */
#include "cache/breaks.h"
#include "cache/report.h"

ph_status ph__visit_replay_apart(ph__visit *visit, ph_graph *graph, const ph_slot_value *values,
                                 size_t count)
{
    ph__visit_step_aside(visit);
    ph_status status = count ? ph_graph_replay_with(graph, visit->stream, values, count)
                             : ph_graph_replay(graph, visit->stream);
    ph__visit_step_back(visit);
    return status;
}

/* ---- the pool ---- */
bool ph__cache_is_inside(const ph_graph_cache *cache)
{
    return atomic_load(&cache->launches) == PH__CACHE_INSIDE;
}

bool ph__visit_enter_pool(ph__visit *visit, const ph_graph *graph)
{
    _Atomic int *launches = &visit->cache->launches;
    visit->kept_out = false;
    if (!visit->cache->capture.allow_breaks)
        return true;
    int count = atomic_load(launches);
    do {
        visit->kept_out = count == PH__CACHE_INSIDE || (graph->segments && count > 0);
    } while (!visit->kept_out &&
             !atomic_compare_exchange_weak(launches, &count,
                                           graph->segments ? PH__CACHE_INSIDE : count + 1));
    visit->launching = !visit->kept_out;
    return visit->launching;
}

/* A call that is between two segments is the only one. */
void ph__visit_leave_pool(ph__visit *visit)
{
    _Atomic int *launches = &visit->cache->launches;
    if (!visit->launching)
        return;
    visit->launching = false;
    if (atomic_load(launches) == PH__CACHE_INSIDE)
        atomic_store(launches, 0);
    else
        atomic_fetch_sub(launches, 1);
}

void ph__visit_say_kept_out(ph__visit *visit)
{
    ph__cache_reason(visit->result->reason, sizeof visit->result->reason,
                     ph__cache_is_inside(visit->cache)
                         ? "another call of the cache is in a replay with breaks, whose memory a "
                           "graph would overwrite; call it behind that, or use a cache for each"
                         : "the body has breaks, and another call of the cache launches a graph "
                           "at this moment; call one behind the other, or use a cache for each");
}
