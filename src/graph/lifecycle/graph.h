/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/graph.h: the graph object's life, after hooks. */
#ifndef PH_GRAPH_LIFECYCLE_GRAPH_H
#define PH_GRAPH_LIFECYCLE_GRAPH_H
#include <phonograph/graph.h>

/* A hook at that point was left by an exception, no call of the graph's goes on: what was begun
 * is undone, what was being destroyed is. The graph may be gone then. */
void ph__graph_abandon(ph_graph *graph, ph_graph_hook_point point);
/* After hooks: carries out a destroy that one of them asked for. graph may be gone then. */
void ph__graph_leave(ph_graph *graph);
#endif
