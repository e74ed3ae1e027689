/* SPDX-License-Identifier: MIT */
/* cache/executables.h: what a graph's executable takes, and whether it is running. */
#ifndef PH_CACHE_EXECUTABLES_H
#define PH_CACHE_EXECUTABLES_H
#include "cache/cache.h"

/* Whether a replay of the graph may be running; of a stream that is capturing nobody can tell. */
bool ph__graph_is_in_flight(const ph_graph *graph);
/* Of the device, as measured; takes NULL. */
size_t ph__graph_exec_bytes(ph_graph *graph);
#endif
