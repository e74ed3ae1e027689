/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/instantiate.h: making the executable of a graph. */
#ifndef PH_GRAPH_LIFECYCLE_INSTANTIATE_H
#define PH_GRAPH_LIFECYCLE_INSTANTIATE_H
#include <phonograph/graph.h>

/* Makes the executable, then runs the hooks. A failing driver changes
 * nothing; a failing hook makes FAILED. */
ph_status ph__graph_make_exec(ph_graph *graph, const char *call);
/* The two halves of that, of a graph without breaks: the executable, which no hook is told of, on
 * any thread that has the graph for itself; then READY, and the hooks. */
ph_status ph__graph_make_exec_ahead(ph_graph *graph, const char *call);
ph_status ph__graph_exec_ready(ph_graph *graph);
/* The same before the first use of a graph that has none: ENDED. */
ph_status ph__graph_need_exec(ph_graph *graph, const char *call);
/* The executables of all segments of a graph with breaks are there: READY, then the hooks. */
ph_status ph__segments_ready(ph_graph *graph);
#endif
