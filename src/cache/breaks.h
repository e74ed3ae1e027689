/* SPDX-License-Identifier: MIT */
/* cache/breaks.h: replays of graphs with breaks. */
#ifndef PH_CACHE_BREAKS_H
#define PH_CACHE_BREAKS_H
#include "cache/serve.h"

/* Replays a graph of the visit's entry, which is locked, and free meanwhile. */
ph_status ph__visit_replay_breaks(ph__visit *visit, ph_graph *graph);
#endif
