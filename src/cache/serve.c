/* SPDX-License-Identifier: MIT */
/* cache/serve.c: doing a call with the graphs of its key. Nothing launches before all that can fail
 * is done: so a call that is not served can still run as it is. */
#include "cache/serve.h"
#include "base/line.h"
#include "cache/breaks.h"
#include "device/handles/stream.h"
#include "graph/lifecycle/nested.h"
#include "graph/object/graph.h"
#include "graph/object/segments.h"
#include <string.h>

static void repeat_reason(ph__visit *visit)
{
    memcpy(visit->result->reason, visit->entry->reason, sizeof visit->result->reason);
}

/* ---- replays ---- the entry is locked. */
ph_status ph__serve_graph(ph__visit *visit, ph_graph *graph, const ph_slot_value *values,
                          size_t count)
{
    if (!visit->launch)
        return PH_OK;
    if (!ph__visit_enter_pool(visit, graph))
        return PH_ERROR_POOL_BUSY;
    ph_status status = ph__replay_calls_functions(graph)
                           ? ph__visit_replay_apart(visit, graph, values, count)
                       : count ? ph_graph_replay_with(graph, visit->stream, values, count)
                               : ph_graph_replay(graph, visit->stream);
    ph__visit_leave_pool(visit);
    if (status == PH_OK) {
        visit->result->graph = graph;
        visit->result->epoch = ph_graph_epoch(graph);
    }
    return status;
}

/* 0: the stream is in none. Whether it is costs a call of the driver where other code may
 * capture. */
static uint64_t find_capture(ph_status *status, const ph__visit *visit)
{
    uint64_t capture = 0;
    if (visit->asks)
        *status = ph__stream_find_capture(&capture, visit->stream, "ph_graph_cache_run");
    return *status == PH_OK ? capture : 0;
}

static bool is_outside_captures(ph_status *status, const ph__visit *visit)
{
    return find_capture(status, visit) == 0 && *status == PH_OK;
}

/* The graph stays for later calls. */
static ph__served run_outside_pool(ph_status *status, ph__visit *visit)
{
    *status = PH_OK;
    if (!is_outside_captures(status, visit))
        return *status == PH_OK ? PH__RECORD : PH__SERVED;
    ph__visit_say_kept_out(visit);
    return PH__EAGER;
}

/* DEVICE: it may have begun. */
ph__served ph__served_or_dropped(ph_status *status, ph__visit *visit, const ph_graph *graph)
{
    ph__cache_entry *entry = visit->entry;
    if (visit->kept_out)
        return run_outside_pool(status, visit);
    bool begun = graph->segments && graph->segments->launched > 0;
    if (*status == PH_OK || *status == PH_ERROR_DEVICE || begun)
        return PH__SERVED;
    ph__visit_note_error(visit);
    ph__visit_clear_entry(visit);
    if (++entry->refusals >= PH__CACHE_ATTEMPTS)
        ph__visit_refuse(visit);
    return PH__EAGER;
}

ph__served ph__serve_learned(ph_status *status, ph__visit *visit)
{
    ph__learned *learned = visit->entry->learned;
    if (!visit->launch)
        return PH__SERVED;
    *status = ph__serve_graph(visit, visit->entry->graph, learned->due.at, learned->due.count);
    if (*status == PH_OK && learned->differs)
        ph__learned_was_set(learned, visit->call);
    else if (*status != PH_OK && learned->due.count) /* some slots may have the call's values */
        learned->all_due = true;
    return ph__served_or_dropped(status, visit, visit->entry->graph);
}

static bool may_capture(ph__visit *visit)
{
    ph__cache_entry *entry = visit->entry;
    uint64_t by = 0, me = ph__thread_id();
    if (visit->launch && ph__cache_is_inside(visit->cache)) {
        ph__visit_say_kept_out(visit);
        return false;
    }
    if (!atomic_compare_exchange_strong(&visit->cache->capturing, &by, me)) {
        ph__line_format(visit->result->reason, sizeof visit->result->reason, "%s",
                        by == me ? "the call is made within one that captures, by its body or a "
                                   "callback; behind that one it can be captured"
                                 : "another capture of the cache is open");
        return false;
    }
    visit->capturing = entry->capturing = true;
    return true;
}

static bool is_spent(const ph__visit *visit)
{
    return visit->entry->unlearned >= PH__CACHE_ATTEMPTS &&
           visit->cache->fallback == PH_CACHE_FALLBACK_EAGER;
}

/* As the capture of another key, whose body this call is made in. */
bool ph__serve_may_nest(ph_status *status, ph__visit *visit, const ph_graph *graph)
{
    size_t bytes;
    const uint64_t capture = find_capture(status, visit);
    if (capture == 0 || !ph__nested_live(&bytes, graph, capture))
        return true;
    ph__visit_note(visit, "the capture around the call has memory of the cache's pool that the "
                          "graph would write over; capture into another pool, or free it before");
    return false;
}

/* An executable that nothing was ever set in is as its template: on a capturing stream it becomes a
 * child graph, which no epoch counts. */
static ph__served replay_as_captured(ph_status *status, ph__visit *visit)
{
    ph_graph *graph = visit->entry->graph;
    uint64_t epoch = ph_graph_epoch(graph);
    if (!ph__serve_may_nest(status, visit, graph))
        return PH__RECORD;
    if (*status != PH_OK)
        return PH__SERVED;
    visit->result->path = PH_CACHE_REPLAYED;
    ph__served served = ph__serve_learned(status, visit);
    if (*status == PH_OK && visit->launch && ph_graph_epoch(graph) == epoch)
        visit->result->path = PH_CACHE_NESTED;
    return served;
}

/* A graph with breaks is replayed as it was captured, or not at all. */
static ph__served serve_breaks(ph_status *status, ph__visit *visit, bool known)
{
    if (!is_outside_captures(status, visit))
        return *status == PH_OK ? PH__RECORD : PH__SERVED;
    if (known) {
        visit->result->path = PH_CACHE_REPLAYED;
        return ph__serve_learned(status, visit);
    }
    ph__visit_note(visit,
                   "the body has breaks, and what moves is not learned across segments; a key "
                   "that has the pointers and values is replayed");
    return PH__EAGER;
}

static ph__served serve_graph(ph_status *status, ph__visit *visit)
{
    ph__cache_entry *entry = visit->entry;
    ph_graph_cache_result *result = visit->result;
    bool known =
        ph__learned_match(entry->learned, visit->call, result->reason, sizeof result->reason);
    if (entry->graph->segments)
        return serve_breaks(status, visit, known);
    if (known && ph_graph_slot_count(entry->graph) == 0)
        return replay_as_captured(status, visit);
    if (!is_outside_captures(status, visit))
        return *status == PH_OK ? PH__RECORD : PH__SERVED;
    if (known) {
        result->path = PH_CACHE_REPLAYED;
        return ph__serve_learned(status, visit);
    }
    if (entry->unlearned >= PH__CACHE_ATTEMPTS)
        repeat_reason(visit);
    if (is_spent(visit))
        return PH__EAGER;
    return may_capture(visit) ? PH__CAPTURE : PH__EAGER;
}

static ph__served serve_locked(ph_status *status, ph__visit *visit)
{
    ph__cache_entry *entry = visit->entry;
    if (entry->apart) {
        ph__line_format(visit->result->reason, sizeof visit->result->reason,
                        "another call of the key %s",
                        entry->graph && entry->graph->segments
                            ? "is in a replay with breaks"
                            : "has its graphs while it calls hooks or events");
        return is_outside_captures(status, visit) ? PH__EAGER
               : *status == PH_OK                 ? PH__RECORD
                                                  : PH__SERVED;
    }
    if (entry->graph)
        return serve_graph(status, visit);
    if (!is_outside_captures(status, visit))
        return *status == PH_OK ? PH__RECORD : PH__SERVED;
    if (entry->refused) {
        repeat_reason(visit);
        return PH__EAGER;
    }
    if (visit->launch && entry->seen < visit->cache->after) {
        entry->seen++;
        return PH__EAGER;
    }
    return may_capture(visit) ? PH__CAPTURE : PH__EAGER;
}

ph__served ph__serve_replay(ph_status *status, ph__visit *visit)
{
    ph__visit_lock(visit);
    ph__served served = serve_locked(status, visit);
    ph__visit_unlock(visit);
    return served;
}
