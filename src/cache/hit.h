/* SPDX-License-Identifier: MIT */
/* cache/hit.h: calls that replay at once. */
#ifndef PH_CACHE_HIT_H
#define PH_CACHE_HIT_H
#include "cache/serve.h"

/* Most calls: the key has a graph in which nothing was ever set, and nothing moved: it is launched
 * with the entry locked, and the call is over. Else false, and nothing was done, or *status is the
 * failure of the launch; *entry: locked, or NULL. The result is clear but for those it is. */
bool ph__hit_at_once(ph_status *status, ph__cache_entry **entry, ph_graph_cache *cache,
                     ph_stream *stream, const ph_graph_cache_call *call,
                     ph_graph_cache_result *result);
/* The rest of the hits, with what that left; frees the entry's lock. The key has a graph, which
 * follows what the call has, and nothing calls the user's functions.
 * - MISSED: nothing was done, or checked.
 * - SERVED without an entry of the visit: the call is over.
 * - else as ph__serve_replay; the visit has the entry. */
ph__served ph__serve_hit(ph_status *status, ph__visit *visit, ph__cache_entry *entry);
#endif
