/* SPDX-License-Identifier: MIT */
/* graph/inputs/nested_inputs.h: the inputs of a graph that becomes a part of a capture. */
#ifndef PH_GRAPH_INPUTS_NESTED_INPUTS_H
#define PH_GRAPH_INPUTS_NESTED_INPUTS_H
#include "graph/object/graph.h"

/* Where the open capture checks its inputs: STALE_INPUT if one of the graph's, as captured, is
 * dead; else the capture has them as they are now, and what the graph declared. */
ph_status ph__nested_inputs_pass(ph_graph *graph, uint64_t capture_id, const char *call);
#endif
