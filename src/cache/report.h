/* SPDX-License-Identifier: MIT */
/* cache/report.h: reasons, and what the event callback is told. */
#ifndef PH_CACHE_REPORT_H
#define PH_CACHE_REPORT_H
#include "cache/cache.h"

/* A message as a reason: of one that is longer than the room, its beginning, and its last clause,
 * which says what to do. */
void ph__cache_reason(char *out, size_t size, const char *message);
/* The entry may be NULL: it is about no key. */
void ph__cache_report(const ph_graph_cache *cache, ph_graph_cache_path what,
                      const ph__cache_entry *entry, const char *reason);
#endif
