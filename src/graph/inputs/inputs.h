/* SPDX-License-Identifier: MIT */
/* graph/inputs/inputs.h: finding the inputs of a graph: the memory from elsewhere that its nodes
 * address. */
#ifndef PH_GRAPH_INPUTS_INPUTS_H
#define PH_GRAPH_INPUTS_INPUTS_H
#include "graph/object/graph.h"

/* All inputs of what `from` captured (graph itself, or the one of an update), whose record is made;
 * tracked where the graph checks. Asks the driver what the library does not know. On failure
 * there are none. */
ph_status ph__inputs_of_graph(ph__inputs *out, ph_graph *graph, const ph_graph *from,
                              const char *call);
/* Of what the graph's last update brought, whose record this is. */
ph_status ph__inputs_of_brought(ph__inputs *out, ph_graph *graph, const ph_record *record,
                                const char *call);
/* The words of one node, which it was set to. */
ph_status ph__inputs_of_words(ph__inputs *out, ph_graph *graph, size_t node, const char *node_name,
                              const ph_word *words, size_t count, const char *call);
void ph__inputs_let_go(const ph__inputs *inputs,
                       ph_graph *graph); /* of what they track; they stay allocated */
void ph__inputs_free(ph__inputs *inputs, ph_graph *graph);
#endif
