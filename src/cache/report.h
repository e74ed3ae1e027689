/* SPDX-License-Identifier: MIT */
/* cache/report.h: what the event callback is told. */
#ifndef PH_CACHE_REPORT_H
#define PH_CACHE_REPORT_H
#include "cache/cache.h"

/* The entry may be NULL: it is about no key. */
void ph__cache_report(const ph_graph_cache *cache, ph_graph_cache_path what,
                      const ph__cache_entry *entry, const char *reason);
#endif
