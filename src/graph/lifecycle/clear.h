/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/clear.h: letting go of all that a capture brought. */
#ifndef PH_GRAPH_LIFECYCLE_CLEAR_H
#define PH_GRAPH_LIFECYCLE_CLEAR_H
#include <phonograph/graph.h>

/* Lets go of all that the capture brought, but for what ph_graph_retain named; device included.
 * Leaves the error record and the state alone. */
void ph__graph_clear(ph_graph *graph);
#endif
