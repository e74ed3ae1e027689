/* SPDX-License-Identifier: MIT */
/* graph/inputs/rebind.h: the inputs of nodes that were set to other arguments. */
#ifndef PH_GRAPH_INPUTS_REBIND_H
#define PH_GRAPH_INPUTS_REBIND_H
#include "graph/object/graph.h"

typedef struct ph__set_launch ph__set_launch;
/* Room for what the node is set to; NULL: no host memory. */
ph__set_launch *ph__graph_prepare_set(ph_graph *graph, size_t node, const ph_kernel *kernel);
/* The same of a node that has been set, and runs the kernel that it was set with; NULL: prepare_set
 * has to be called. */
ph__set_launch *ph__graph_known_set(const ph_graph *graph, size_t node);
/* The node has been set so. */
void ph__graph_note_set(ph_graph *graph, ph__set_launch *set, const void *args);
/* Makes inputs of what was noted. */
ph_status ph__graph_collect_sets(ph_graph *graph, const char *call);
void ph__graph_drop_sets(ph_graph *graph);
#endif
