/* SPDX-License-Identifier: MIT */
/* cache/entry.h: the table of keys, in order of last use. */
#ifndef PH_CACHE_ENTRY_H
#define PH_CACHE_ENTRY_H
#include "cache/cache.h"
#include <string.h>

/* The key's entry, made where there is none, with one user more, as the one used last. NULL: no
 * host memory. */
ph__cache_entry *ph__entry_enter(ph_graph_cache *cache, const ph_graph_cache_call *call);
/* path: how a call of its was done; 0: none was. result: loses its graph where the key was dropped
 * meanwhile, as that goes with the last user; NULL: there is none. */
void ph__entry_leave(ph_graph_cache *cache, ph__cache_entry *entry, ph_graph_cache_path path,
                     ph_graph_cache_result *result);

/* One user more; the caller has it locked. */
void ph__entry_hold(ph_graph_cache *cache, ph__cache_entry *entry);
/* Length, first and last bytes: a look compares them before it takes a lock. */
static inline uint64_t ph__entry_tag(const void *key, size_t bytes)
{
    uint64_t first = 0, last = 0;
    if (bytes >= sizeof first) {
        memcpy(&first, key, sizeof first);
        memcpy(&last, (const char *)key + bytes - sizeof last, sizeof last);
    } else {
        memcpy(&first, key, bytes);
    }
    return first ^ (last << 7 | last >> 57) ^ bytes;
}
static inline bool ph__entry_has_key(const ph__cache_entry *entry, const void *key, size_t bytes)
{
    return entry->key_bytes == bytes && memcmp(entry->key, key, bytes) == 0;
}

/* The key's entry, locked, as the one used last: without a user, as nothing takes it or its graphs
 * meanwhile. NULL: it has no graph, or somebody has it locked. lock_found looks into the table at
 * once. */
ph__cache_entry *ph__entry_lock_found(ph_graph_cache *cache, const ph_graph_cache_call *call);
static inline ph__cache_entry *ph__entry_lock_known(ph_graph_cache *cache,
                                                    const ph_graph_cache_call *call)
{
    ph__cache_entry *last = atomic_load_explicit(&cache->last, memory_order_acquire);
    if (last && ph__entry_tag(call->key, call->key_bytes) ==
                    atomic_load_explicit(&last->tag, memory_order_relaxed)) {
        if (!ph__mutex_try(&last->lock))
            return NULL;
        if (!atomic_load_explicit(&last->dropped, memory_order_relaxed) &&
            ph__entry_has_key(last, call->key, call->key_bytes))
            return last;
        ph__mutex_unlock(&last->lock);
    }
    return ph__entry_lock_found(cache, call);
}
/* The cache's numbers have the entry's hits; under the cache's lock. */
void ph__entry_count_replays(ph_graph_cache *cache, ph__cache_entry *entry);

/* Takes it out of the table; false: the key is not there. */
bool ph__entry_drop(ph_graph_cache *cache, const void *key, size_t key_bytes);
/* Under the lock of `from`; the other has none. */
void ph__entry_move_graphs(ph__cache_entry *to, ph__cache_entry *from);
/* Destroys graph, learned places and variants; under the entry's lock, or by its last owner. */
void ph__entry_clear(ph_graph_cache *cache, ph__cache_entry *entry);
#endif
