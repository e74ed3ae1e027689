/* SPDX-License-Identifier: MIT */
/* cache/entry.h: the table of keys, in order of last use. */
#ifndef PH_CACHE_ENTRY_H
#define PH_CACHE_ENTRY_H
#include "cache/cache.h"

/* The key's entry, made where there is none, with one user more, as the one used last. NULL: no
 * host memory. */
ph__cache_entry *ph__entry_enter(ph_graph_cache *cache, const ph_graph_cache_call *call);
/* path: how a call of its was done; 0: none was. result: loses its graph where the key was dropped
 * meanwhile, as that goes with the last user; NULL: there is none. */
void ph__entry_leave(ph_graph_cache *cache, ph__cache_entry *entry, ph_graph_cache_path path,
                     ph_graph_cache_result *result);

/* One user more; the caller has it locked. */
void ph__entry_hold(ph_graph_cache *cache, ph__cache_entry *entry);
/* The key's entry, locked, as the one used last: without a user, as nothing takes it or its graphs
 * meanwhile. NULL: it has no graph, or somebody has it locked. */
ph__cache_entry *ph__entry_lock_known(ph_graph_cache *cache, const ph_graph_cache_call *call);
/* The cache's numbers have the entry's hits; under the cache's lock. */
void ph__entry_count_replays(ph_graph_cache *cache, ph__cache_entry *entry);

/* Takes it out of the table; false: the key is not there. */
bool ph__entry_drop(ph_graph_cache *cache, const void *key, size_t key_bytes);
/* The variant was used: it moves to the front. Under the entry's lock. */
void ph__entry_use_variant(ph__cache_entry *entry, size_t at);
/* Under the lock of `from`; the other has none. */
void ph__entry_move_graphs(ph__cache_entry *to, ph__cache_entry *from);
/* Destroys graph, learned places and variants; under the entry's lock, or by its last owner. */
void ph__entry_clear(ph__cache_entry *entry);
#endif
