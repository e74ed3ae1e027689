/* SPDX-License-Identifier: MIT */
/* graph/inputs/replace.h: the inputs of one node in the place of those that it had. */
#ifndef PH_GRAPH_INPUTS_REPLACE_H
#define PH_GRAPH_INPUTS_REPLACE_H
#include "graph/object/graph.h"

/* Makes room, so that replace cannot fail. */
bool ph__graph_reserve_inputs(ph_graph *graph, size_t extra);
/* Puts `inputs` in the place of all those of the node. */
void ph__graph_replace_inputs(ph_graph *graph, size_t node, ph__inputs *inputs);
#endif
