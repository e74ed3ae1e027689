/* SPDX-License-Identifier: MIT */
/* cache/budget.c: what graphs take, and which of them go. */
#include "cache/budget.h"
#include "base/unwind.h"
#include "cache/entry.h"
#include "device/capture/refuse.h"
#include "device/handles/hold.h"
#include "device/handles/stream.h"
#include "graph/object/graph.h"
#include "graph/object/segments.h"

/* Of the device, as measured: the driver takes memory for executables in large pieces, so that one
 * may have taken nothing and the next one all. */
static size_t executable_bytes(ph_graph *graph)
{
    ph_graph_memory memory = {0};
    ph_error before;
    ph__error_save(&before);
    if (graph && ph_graph_get_memory(&memory, graph) != PH_OK)
        ph__error_restore(&before);
    return memory.executable;
}

void ph__entry_account(ph_graph_cache *cache, ph__cache_entry *entry)
{
    size_t bytes = executable_bytes(entry->graph);
    bool has_graphs = entry->graph != NULL;
    for (size_t i = 0; i < PH__CACHE_VARIANTS; i++) {
        bytes += executable_bytes(entry->variants[i]);
        has_graphs = has_graphs || entry->variants[i];
    }
    ph__mutex_lock(&cache->lock);
    if (!atomic_load_explicit(&entry->dropped, memory_order_relaxed)) {
        cache->bytes += bytes - entry->bytes;
        cache->graphs += (size_t)has_graphs - (size_t)entry->has_graphs;
        entry->bytes = bytes;
        entry->has_graphs = has_graphs;
    }
    ph__mutex_unlock(&cache->lock);
}

static size_t pool_bytes(const ph_graph_cache *cache)
{
    ph_memory_stats stats = {0};
    ph_error before;
    ph__error_save(&before);
    if (ph_pool_stats(&stats, cache->pool) != PH_OK)
        ph__error_restore(&before);
    return stats.reserved;
}

/* Other threads drop keys meanwhile. */
static bool is_over_budget(ph_graph_cache *cache)
{
    if (!cache->budget)
        return false;
    ph__mutex_lock(&cache->lock);
    size_t bytes = cache->bytes;
    ph__mutex_unlock(&cache->lock);
    return bytes + pool_bytes(cache) > cache->budget;
}

bool ph__entry_is_pool_empty(const ph_graph_cache *cache)
{
    return pool_bytes(cache) == 0;
}

/* Of a graph with breaks the one of its last segment. */
static ph_stream *last_stream_of(const ph_graph *graph)
{
    const ph__segments *segments = graph ? graph->segments : NULL;
    if (segments)
        graph = segments->list.at[segments->list.count - 1].graph;
    return graph ? graph->last_stream : NULL;
}

/* A capture does not survive the question, and none begins meanwhile. */
static bool is_idle(ph_stream *stream)
{
    ph_capture_mode mode;
    ph__shared_lock(&stream->asks);
    ph__stream_hold(stream);
    bool idle = ph__stream_is_free(stream);
    if (idle) {
        ph__relaxed_begin(stream->device, &mode);
        idle = stream->device->driver->stream_query(stream->handle) == PH__R_OK;
        ph__relaxed_end(stream->device, mode);
    }
    ph__stream_unhold(stream);
    ph__shared_unlock(&stream->asks);
    return idle;
}

/* Streams that are idle have no replay of it left; of one that is capturing nobody can tell. Under
 * the cache's lock, of an entry that nobody uses. */
static bool is_in_flight(const ph__cache_entry *entry)
{
    ph_stream *stream = last_stream_of(entry->graph);
    return stream && !is_idle(stream);
}

/* Locked. */
static ph__cache_entry *choose_victim(const ph_graph_cache *cache, const ph__cache_entry *keep)
{
    ph__cache_entry *waiting = NULL;
    for (ph__cache_entry *entry = cache->oldest; entry; entry = entry->newer) {
        if (entry == keep || entry->users || !entry->has_graphs || !ph__mutex_try(&entry->lock))
            continue; /* a hit that has it locked uses it */
        if (!is_in_flight(entry)) {
            if (waiting)
                ph__mutex_unlock(&waiting->lock);
            return entry;
        }
        if (waiting)
            ph__mutex_unlock(&entry->lock);
        else
            waiting = entry;
    }
    return waiting;
}

typedef struct telling {
    ph_graph_cache *cache;
    ph__cache_entry *victim;
} telling;

static void leave_victim(void *what)
{
    const telling *t = what;
    ph__entry_leave(t->cache, t->victim, 0, NULL);
}

/* The key stays, and runs eagerly at first as a new one does. No lock is held while functions of
 * the user's run. */
static bool evict_one(ph_graph_cache *cache, const ph__cache_entry *keep)
{
    ph__cache_entry kept = {0};
    ph__mutex_lock(&cache->lock);
    ph__cache_entry *victim = choose_victim(cache, keep);
    if (victim) {
        ph__entry_move_graphs(&kept, victim);
        cache->graphs--;
        cache->bytes -= victim->bytes;
        victim->bytes = 0;
        victim->has_graphs = false;
        victim->seen = 0;
        victim->users++; /* for the event */
        ph__mutex_unlock(&victim->lock);
        cache->evicted++;
    }
    ph__mutex_unlock(&cache->lock);
    ph__entry_clear(&kept);
    if (!victim)
        return false;
    telling t = {cache, victim};
    PH__UNWIND unwind = {leave_victim, &t};
    ph__cache_report(cache, PH_CACHE_EVICTED, victim, "");
    return true;
}

static void trim_pool(const ph_graph_cache *cache)
{
    ph_error before;
    ph__error_save(&before);
    if (ph_pool_trim(cache->pool) != PH_OK)
        ph__error_restore(&before);
}

bool ph__entry_make_room(ph_graph_cache *cache, const ph__cache_entry *keep, size_t more)
{
    for (;;) {
        ph__mutex_lock(&cache->lock);
        size_t graphs = cache->graphs + (keep && keep->has_graphs ? 0 : more);
        bool full = graphs > cache->max_graphs;
        ph__mutex_unlock(&cache->lock);
        bool over = is_over_budget(cache);
        if (!full && !over)
            return true;
        if (!evict_one(cache, keep)) {
            trim_pool(cache);
            return !is_over_budget(cache);
        }
    }
}

void ph__entry_empty_pool(ph_graph_cache *cache)
{
    while (evict_one(cache, NULL))
        ;
    trim_pool(cache);
}
