/* SPDX-License-Identifier: MIT */
/* graph/change/carried.h: what a graph has beside the parameters that its capture gave it. */
#ifndef PH_GRAPH_CHANGE_CARRIED_H
#define PH_GRAPH_CHANGE_CARRIED_H
#include "graph/object/graph.h"

/* *why: what the graph, or its executable, has that another capture of its work cannot have or give
 * it; NULL: nothing. Reads the record. */
ph_status ph__graph_not_carried(const char **why, ph_graph *graph, const ph_graph *other,
                                const char *call);
#endif
