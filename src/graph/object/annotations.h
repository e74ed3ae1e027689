/* SPDX-License-Identifier: MIT */
/* graph/object/annotations.h: the list of graphs whose nodes have annotations. */
#ifndef PH_GRAPH_OBJECT_ANNOTATIONS_H
#define PH_GRAPH_OBJECT_ANNOTATIONS_H
#include <phonograph/graph.h>

/* The graph's record is there: its annotated nodes are listed from now on. */
void ph__graph_list_annotations(ph_graph *graph);
void ph__graph_unlist_annotations(ph_graph *graph);
#endif
