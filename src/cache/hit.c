/* SPDX-License-Identifier: MIT */
/* cache/hit.c: calls that replay at once. What is unusual about a call is left to the long way,
 * which says what is wrong. */
#include "cache/hit.h"
#include "cache/breaks.h"
#include "cache/entry.h"
#include "device/handles/device.h"
#include "device/handles/stream.h"
#include "graph/lifecycle/nested.h"
#include "graph/lifecycle/relaunch.h"

/* Enough for a look into the table; a launch at once sees what it needs of the stream. Launches
 * beside graphs with breaks are counted on the long way. */
static inline bool may_be_known(const ph_graph_cache *cache, const ph_graph_cache_call *call)
{
    return cache && call && cache->device && !cache->device->forked &&
           !cache->capture.allow_breaks && PH__RESERVED_OK(call) && call->key && call->key_bytes &&
           call->body && (call->pointers || !call->pointer_count) &&
           (call->values || !call->value_count);
}

static inline bool is_usual_stream(const ph_graph_cache *cache, const ph_stream *stream)
{
    return stream && stream->device == cache->device &&
           !atomic_load_explicit(&stream->destroyed, memory_order_relaxed);
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

/* A child graph has nothing of what was set in the executable, and may not write over memory of the
 * capture's; where a capture begins behind this, the replay refuses. */
static bool is_in_capture(const ph__visit *visit, const ph_graph *graph)
{
    uint64_t id;
    size_t bytes;
    return may_capture(visit->cache->device) &&
           (ph__stream_find_capture(&id, visit->stream, "ph_graph_cache_run") != PH_OK ||
            (id && (graph->slots || ph__nested_live(&bytes, graph, id))));
}

/* Numbers of child graphs are the long way's. So are calls with messages: the log's callback may
 * drop the key, and its graph is the result's. */
static ph__served count_hit(ph__visit *visit, ph__cache_entry *entry, bool nested)
{
    if (nested)
        visit->result->path = PH_CACHE_NESTED;
    if (nested || ph__log_is_waiting(&visit->log)) {
        visit->entry = entry;
        ph__entry_hold(visit->cache, entry);
        return PH__SERVED;
    }
    uint64_t replays = atomic_load_explicit(&entry->replays, memory_order_relaxed);
    atomic_store_explicit(&entry->replays, replays + 1, memory_order_relaxed);
    return PH__SERVED;
}

static ph__served fail_hit(ph_status *status, ph__visit *visit, ph__cache_entry *entry, size_t due)
{
    /* some slots may have the call's values */
    entry->learned->all_due = entry->learned->all_due || due;
    visit->entry = entry;
    ph__entry_hold(visit->cache, entry);
    return ph__served_or_dropped(status, visit, entry->graph);
}

/* A key that was dropped meanwhile goes when the entry's lock is free. */
static inline void give_graph(ph_graph_cache_result *result, const ph__cache_entry *entry)
{
    if (atomic_load_explicit(&entry->dropped, memory_order_relaxed))
        return;
    result->graph = entry->graph;
    result->epoch = entry->graph->epoch;
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
    if (*status != PH_OK)
        return fail_hit(status, visit, entry, due);
    if (learned->differs)
        ph__learned_was_set(learned, visit->call);
    give_graph(result, entry);
    return count_hit(visit, entry, graph->epoch == epoch);
}

static ph__served serve_locked(ph_status *status, ph__visit *visit, ph__cache_entry *entry)
{
    const ph_graph_cache_call *call = visit->call;
    ph_graph_cache_result *result = visit->result;
    if (*status != PH_OK) {
        result->path = PH_CACHE_REPLAYED;
        return fail_hit(status, visit, entry, 0);
    }
    if (is_usual_stream(visit->cache, visit->stream) && entry->graph && !entry->apart &&
        is_of_entry(entry, call) && !ph__replay_calls_functions(entry->graph) &&
        ph__learned_match(entry->learned, call, result->reason, sizeof result->reason) &&
        !is_in_capture(visit, entry->graph))
        return replay_hit(status, visit, entry);
    result->reason[0] = '\0';
    return PH__MISSED;
}

ph__served ph__serve_hit(ph_status *status, ph__visit *visit, ph__cache_entry *entry)
{
    if (!entry)
        return PH__MISSED;
    ph__log_hold(&visit->log);
    ph__served served = serve_locked(status, visit, entry);
    ph__mutex_unlock(&entry->lock);
    ph__log_report(&visit->log);
    return served;
}

/* ---- most calls ---- */
static inline bool is_as_captured(ph__cache_entry *entry, const ph_graph_cache_call *call,
                                  ph_graph_cache_result *result)
{
    return !entry->apart && !entry->graph->slots && is_of_entry(entry, call) &&
           (!(call->pointer_count | call->value_count) ||
            ph__learned_match(entry->learned, call, result->reason, sizeof result->reason));
}

bool ph__hit_at_once(ph_status *status, ph__cache_entry **entry_of, ph_graph_cache *cache,
                     ph_stream *stream, const ph_graph_cache_call *call,
                     ph_graph_cache_result *result)
{
    *entry_of = NULL;
    if (!may_be_known(cache, call))
        return false;
    ph__cache_entry *entry = ph__entry_lock_known(cache, call);
    if (!entry)
        return false;
    bool launched = false;
    if (entry->graph && is_as_captured(entry, call, result))
        *status = ph__graph_relaunch(&launched, entry->graph, stream, "ph_graph_replay");
    if (!launched) {
        *entry_of = entry;
        return false;
    }
    result->path = PH_CACHE_REPLAYED;
    give_graph(result, entry);
    uint64_t replays = atomic_load_explicit(&entry->replays, memory_order_relaxed);
    atomic_store_explicit(&entry->replays, replays + 1, memory_order_relaxed);
    ph__mutex_unlock(&entry->lock);
    return true;
}
