/* SPDX-License-Identifier: MIT */
/* graph/change/update_diff.h: why an update was refused. */
#ifndef PH_GRAPH_CHANGE_UPDATE_DIFF_H
#define PH_GRAPH_CHANGE_UPDATE_DIFF_H
#include "graph/object/graph.h"

/* Keeps the differences to a capture whose parameters were refused for what *out says, and names
 * the first one in its message. The error record stays. */
void ph__graph_explain_update(ph_graph *graph, const ph_graph *from, ph_update_result *out);
void ph__graph_drop_update_diff(ph_graph *graph);
#endif
