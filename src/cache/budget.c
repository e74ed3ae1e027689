/* SPDX-License-Identifier: MIT */
/* cache/budget.c: what graphs take, and which of them go. */
#include "cache/budget.h"
#include "base/status.h"
#include "base/unwind.h"
#include "cache/entry.h"
#include "cache/executables.h"
#include "cache/renewal_end.h"
#include "cache/report.h"

void ph__entry_account(ph_graph_cache *cache, ph__cache_entry *entry)
{
    size_t bytes = ph__graph_exec_bytes(entry->graph);
    bool has_graphs = entry->graph != NULL;
    for (size_t i = 0; i < PH__CACHE_VARIANTS; i++) {
        bytes += ph__graph_exec_bytes(entry->variants[i]);
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
bool ph__cache_is_over(ph_graph_cache *cache, size_t more)
{
    if (!cache->budget)
        return false;
    ph__mutex_lock(&cache->lock);
    size_t bytes = cache->bytes;
    ph__mutex_unlock(&cache->lock);
    return bytes + more + ph__renewal_bytes(cache) + pool_bytes(cache) > cache->budget;
}

bool ph__entry_is_pool_empty(const ph_graph_cache *cache)
{
    return pool_bytes(cache) == 0;
}

/* Locked. */
static ph__cache_entry *choose_victim(const ph_graph_cache *cache, const ph__cache_entry *keep)
{
    ph__cache_entry *waiting = NULL;
    for (ph__cache_entry *entry = cache->oldest; entry; entry = entry->newer) {
        if (entry == keep || entry->users || !entry->has_graphs || !ph__mutex_try(&entry->lock))
            continue; /* a hit that has it locked uses it */
        if (!ph__graph_is_in_flight(entry->graph)) {
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
    ph__entry_clear(cache, &kept);
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
    ph__renewal_reap(cache);
    for (;;) {
        ph__mutex_lock(&cache->lock);
        size_t graphs = cache->graphs + (keep && keep->has_graphs ? 0 : more);
        bool full = graphs > cache->max_graphs;
        ph__mutex_unlock(&cache->lock);
        bool over = ph__cache_is_over(cache, 0);
        if (!full && !over)
            return true;
        if (!evict_one(cache, keep)) {
            trim_pool(cache);
            return !ph__cache_is_over(cache, 0);
        }
    }
}

void ph__entry_empty_pool(ph_graph_cache *cache)
{
    while (evict_one(cache, NULL))
        ;
    trim_pool(cache);
}
