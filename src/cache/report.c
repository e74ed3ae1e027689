/* SPDX-License-Identifier: MIT */
/* cache/report.c: reasons, and what the event callback is told. */
#include "cache/report.h"
#include "base/line.h"
#include <string.h>

static const char *find_last_clause(const char *message)
{
    const char *last = NULL;
    for (const char *at = strstr(message, "; "); at; at = strstr(at + 2, "; "))
        last = at;
    return last;
}

void ph__cache_reason(char *out, size_t size, const char *message)
{
    const char *last = find_last_clause(message);
    size_t end = last ? strlen(last) : 0;
    bool cut = strlen(message) >= size && end <= size / 2;
    ph__line_format(out, cut ? size - end : size, "%s", message);
    if (cut && last)
        memcpy(out + strlen(out), last, end + 1);
}

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
