/* SPDX-License-Identifier: MIT */
/* cache/hit.c: calls that replay at once. What is unusual about a call is left to the long way,
 * which says what is wrong. */
#include "cache/hit.h"
#include "cache/breaks.h"
#include "cache/entry.h"
#include "device/handles/device.h"
#include "device/handles/stream.h"
#include "graph/object/graph.h"

static inline bool is_usual_call(const ph_graph_cache *cache, const ph_stream *stream,
                                 const ph_graph_cache_call *call)
{
    return cache && stream && call && stream->device == cache->device &&
           !atomic_load_explicit(&stream->destroyed, memory_order_relaxed) &&
           !cache->device->forked && PH__RESERVED_OK(call) && call->key && call->key_bytes &&
           call->body && (call->pointers || !call->pointer_count) &&
           (call->values || !call->value_count);
}

/* The numbers and sizes are within their limits, as those of the call that made the entry. */
static inline bool is_of_entry(const ph__cache_entry *entry, const ph_graph_cache_call *call)
{
    if (entry->pointer_count != call->pointer_count || entry->value_count != call->value_count)
        return false;
    for (size_t i = 0; i < call->value_count; i++)
        if (!call->values[i].data || entry->value_sizes[i] != call->values[i].bytes)
            return false;
    return true;
}

static inline bool may_capture(const ph_device *device)
{
    return atomic_load_explicit(&device->open_captures, memory_order_relaxed) ||
           atomic_load_explicit(&device->foreign, memory_order_relaxed);
}

/* A child graph has nothing of what was set in the executable; where a capture begins behind this,
 * ph_graph_replay_with refuses. */
static bool is_in_capture(const ph__visit *visit, const ph_graph *graph)
{
    uint64_t id;
    return graph->slots && may_capture(visit->cache->device) &&
           (ph__stream_find_capture(&id, visit->stream, "ph_graph_cache_run") != PH_OK || id);
}

/* Numbers of child graphs are the long way's. */
static ph__served count_hit(ph__visit *visit, ph__cache_entry *entry, bool nested)
{
    if (nested) {
        visit->result->path = PH_CACHE_NESTED;
        visit->entry = entry;
        ph__entry_hold(visit->cache, entry);
        return PH__SERVED;
    }
    uint64_t replays = atomic_load_explicit(&entry->replays, memory_order_relaxed);
    atomic_store_explicit(&entry->replays, replays + 1, memory_order_relaxed);
    return PH__SERVED;
}

static ph__served replay_hit(ph_status *status, ph__visit *visit, ph__cache_entry *entry)
{
    ph_graph_cache_result *result = visit->result;
    ph__learned *learned = entry->learned;
    ph_graph *graph = entry->graph;
    uint64_t epoch = graph->epoch;
    size_t due = learned->due.count;
    result->path = PH_CACHE_REPLAYED;
    *status = graph->slots ? ph_graph_replay_with(graph, visit->stream, learned->due.at, due)
                           : ph_graph_replay(graph, visit->stream);
    if (*status != PH_OK) {
        learned->all_due = learned->all_due || due; /* some slots may have the call's values */
        visit->entry = entry;
        ph__entry_hold(visit->cache, entry);
        return ph__served_or_dropped(status, visit, graph);
    }
    if (learned->differs)
        ph__learned_was_set(learned, visit->call);
    if (!atomic_load_explicit(&entry->dropped, memory_order_relaxed)) {
        result->graph = graph;
        result->epoch = graph->epoch;
    } /* else it goes when the entry's lock is free */
    return count_hit(visit, entry, graph->epoch == epoch);
}

ph__served ph__serve_hit(ph_status *status, ph__visit *visit)
{
    const ph_graph_cache_call *call = visit->call;
    ph_graph_cache_result *result = visit->result;
    if (!is_usual_call(visit->cache, visit->stream, call))
        return PH__MISSED;
    ph__cache_entry *entry = ph__entry_lock_known(visit->cache, call);
    if (!entry)
        return PH__MISSED;
    ph__served served = PH__MISSED;
    ph__log_hold(&visit->log);
    if (entry->graph && !entry->apart && is_of_entry(entry, call) &&
        !ph__replay_calls_functions(entry->graph) &&
        ph__learned_match(entry->learned, call, result->reason, sizeof result->reason) &&
        !is_in_capture(visit, entry->graph))
        served = replay_hit(status, visit, entry);
    else
        result->reason[0] = '\0';
    ph__mutex_unlock(&entry->lock);
    ph__log_report(&visit->log);
    return served;
}
