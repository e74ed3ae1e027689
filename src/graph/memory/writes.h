/* SPDX-License-Identifier: MIT */
/* graph/memory/writes.h: whether replays of a graph may write some memory. */
#ifndef PH_GRAPH_MEMORY_WRITES_H
#define PH_GRAPH_MEMORY_WRITES_H
#include "graph/object/graph.h"

bool ph__graph_writes(const ph_graph *graph, const void *address, size_t bytes);
#endif
