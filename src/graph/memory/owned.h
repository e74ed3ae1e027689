/* SPDX-License-Identifier: MIT */
/* graph/memory/owned.h: the events, streams and objects of the user that a graph keeps alive. */
#ifndef PH_GRAPH_MEMORY_OWNED_H
#define PH_GRAPH_MEMORY_OWNED_H
#include "graph/object/graph.h"

void ph__graph_drop_events(ph_graph *graph);
/* Room for the events of another graph, then those themselves. */
bool ph__graph_reserve_events(ph_graph *graph, const ph_graph *from);
void ph__graph_add_events(ph_graph *graph, const ph_graph *from);
void ph__graph_drop_streams(ph_graph *graph);
/* The graph holds what `from` retains, and what that holds of others, too: until its reset. */
ph_status ph__graph_share_objects(ph_graph *graph, ph_graph *from, const char *call);
/* Hands out what ph_graph_retain named: now, or, where streams must be waited for and a capture
 * is open, when none is. Takes the streams over. Before ph__graph_clear lets the device go. */
ph__batch *ph__graph_detach_batch(ph_graph *graph);
void ph__batch_run(ph__batch *batch); /* takes NULL */
#endif
