/* SPDX-License-Identifier: MIT */
/* graph/change/changes.h: what was changed in an executable. */
#ifndef PH_GRAPH_CHANGE_CHANGES_H
#define PH_GRAPH_CHANGE_CHANGES_H
#include "graph/object/graph.h"

/* Room for the graph's changes; false: no host memory. */
bool ph__changes_reserve(ph_graph *graph);
/* There is room. updated: before the graph lets go of what the last update brought. launched: node
 * is its place in the order of creation. */
void ph__changes_updated(ph_graph *graph, const ph_graph *from);
void ph__changes_launched(ph_graph *graph, size_t node, const ph__drv_launch *launch);
/* Updates since one was last seen to change a grid or block: 0 where that was the last one, or none
 * came. demoted: as in ph_graph_changes, as far as it is known. Nothing is asked. */
uint64_t ph__changes_calm(const ph_graph *graph);
size_t ph__changes_demoted(const ph_graph *graph);
void ph__changes_drop(ph_graph *graph); /* of a new executable, or of none */
#endif
