/* SPDX-License-Identifier: MIT */
/* graph/object/annotations.h: the list of graphs whose nodes have annotations. */
#ifndef PH_GRAPH_OBJECT_ANNOTATIONS_H
#define PH_GRAPH_OBJECT_ANNOTATIONS_H
#include <phonograph/graph.h>

/* The graph's capture has ended: its annotated nodes are listed from now on. */
void ph__graph_list_annotations(ph_graph *graph);
void ph__graph_unlist_annotations(ph_graph *graph);
/* Of a graph that has marks: makes its record, if there is none yet. */
ph_status ph__graph_need_annotated(ph_graph *graph, const char *call);
#endif
