/* SPDX-License-Identifier: MIT */
/* cache/report.c: what the event callback is told. */
#include "cache/report.h"

void ph__cache_report(const ph_graph_cache *cache, ph_graph_cache_path what,
                      const ph__cache_entry *entry, const char *reason)
{
    if (cache->event)
        cache->event(&(ph_graph_cache_event){.what = what,
                                             .key = entry ? entry->key : NULL,
                                             .key_bytes = entry ? entry->key_bytes : 0,
                                             .reason = reason},
                     cache->user);
}
