/* SPDX-License-Identifier: MIT */
/* cache/check.h: the arguments of calls, and whether a capture may be planned. */
#ifndef PH_CACHE_CHECK_H
#define PH_CACHE_CHECK_H
#include "cache/cache.h"

/* Not NULL, and not destroyed. */
ph_status ph__cache_check_there(const ph_graph_cache *cache, const char *name);
ph_status ph__cache_check(const ph_graph_cache *cache, const ph_stream *stream, const char *name);
ph_status ph__cache_check_key(const void *key, size_t key_bytes, const char *name);
ph_status ph__cache_check_call(const ph_graph_cache_call *call, const char *name);
/* The numbers of pointers and values follow from the key. */
ph_status ph__cache_check_entry(const ph__cache_entry *entry, const ph_graph_cache_call *call,
                                const char *name);
/* Why captures that are to be planned cannot be made now; static. NULL: they can. */
const char *ph__cache_no_plan_now(const ph_graph_cache *cache);
#endif
