/* SPDX-License-Identifier: MIT */
/* cache/budget.h: what graphs take, and which of them go. */
#ifndef PH_CACHE_BUDGET_H
#define PH_CACHE_BUDGET_H
#include "cache/cache.h"

/* Notes what the executables of the entry take, which its user has locked. */
void ph__entry_account(ph_graph_cache *cache, ph__cache_entry *entry);
/* Evicts graphs in order of their last use, but not that of `keep`, until `more` graphs fit. Those
 * whose last replay is over go first. False: the budget is exceeded still. No lock is held. */
bool ph__entry_make_room(ph_graph_cache *cache, const ph__cache_entry *keep, size_t more);
/* Whether the budget would be exceeded with so many bytes more. */
bool ph__cache_is_over(ph_graph_cache *cache, size_t more);
/* Nothing has left memory in the pool. */
bool ph__entry_is_pool_empty(const ph_graph_cache *cache);
/* Evicts all graphs that nobody uses. */
void ph__entry_empty_pool(ph_graph_cache *cache);
#endif
