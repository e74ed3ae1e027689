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

/* Takes it out of the table; false: the key is not there. */
bool ph__entry_drop(ph_graph_cache *cache, const void *key, size_t key_bytes);
/* Notes what the executables of the entry take, which its user has locked. */
void ph__entry_account(ph_graph_cache *cache, ph__cache_entry *entry);
/* The variant was used: it moves to the front. Under the entry's lock. */
void ph__entry_use_variant(ph__cache_entry *entry, size_t at);
/* Destroys graph, learned places and variants; under the entry's lock, or by its last owner. */
void ph__entry_clear(ph__cache_entry *entry);
/* Evicts graphs in order of their last use, but not that of `keep`, until `more` graphs fit. Those
 * whose last replay is over go first. False: the budget is exceeded still. No lock is held. */
bool ph__entry_make_room(ph_graph_cache *cache, const ph__cache_entry *keep, size_t more);
/* Nothing has left memory in the pool. */
bool ph__entry_is_pool_empty(const ph_graph_cache *cache);
/* Evicts all graphs that nobody uses. */
void ph__entry_empty_pool(ph_graph_cache *cache);
#endif
