/* SPDX-License-Identifier: MIT */
/* graph/memory/born.h: memory that was allocated while the capture was open, which the graph
 * holds. */
#ifndef PH_GRAPH_MEMORY_BORN_H
#define PH_GRAPH_MEMORY_BORN_H
#include "graph/object/graph.h"
#include "memory/observe/hold.h"

/* At the capture's end, when there is a record. */
ph_status ph__graph_hold_born(ph_graph *graph, const char *call);
/* Holds one allocation, at most once. */
ph_status ph__held_add(ph__held *held, const ph__born *born, const char *call);
/* Passes what the graph holds to the open capture that a copy of the graph is put into. */
ph_status ph__held_pass(ph_graph *graph, uint64_t capture_id, const char *call);
/* For `graph`, whose executable takes the parameters of `from`. On failure nothing is held. */
ph_status ph__held_copy(ph__held *out, ph_graph *graph, const ph_graph *from, const char *call);
/* No replay from now on uses it; empty afterwards. */
void ph__held_drop(ph_graph *graph, ph__held *held);
/* Before the graph's streams are taken from it. */
void ph__graph_drop_held(ph_graph *graph);
/* generation 0: of what is there now. */
bool ph__held_has(const ph__held *held, const ph_device *device, const void *address,
                  uint64_t generation);
bool ph__graph_holds(const ph_graph *graph, const void *address, uint64_t generation);
#endif
