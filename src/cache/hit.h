/* SPDX-License-Identifier: MIT */
/* cache/hit.h: calls that replay at once. */
#ifndef PH_CACHE_HIT_H
#define PH_CACHE_HIT_H
#include "cache/serve.h"

/* Most calls: the key has a graph, which follows what the call has, and nothing calls the user's
 * functions. One lock is held, two where another key came last.
 * - MISSED: nothing was done, or checked.
 * - SERVED without an entry: the call is over.
 * - else as ph__serve_replay; the visit has the entry. */
ph__served ph__serve_hit(ph_status *status, ph__visit *visit);
#endif
