/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/nested.h: graphs in one capture that share a pool: with the memory that the
 * capture has, and with each other. */
#ifndef PH_GRAPH_LIFECYCLE_NESTED_H
#define PH_GRAPH_LIFECYCLE_NESTED_H
#include "graph/object/graph.h"

/* A block that the capture was given and has not freed, and that a replay of the graph would write
 * over; 0: there is none. check: STATE where there is one. */
uintptr_t ph__nested_live(size_t *bytes, const ph_graph *graph, uint64_t capture_id);
ph_status ph__nested_check(const ph_graph *graph, uint64_t capture_id, const char *call);

/* Between the two the stream's next node, which is the graph's, comes behind the earlier ones of
 * graphs that share a pool with it, on whatever stream of the capture. made: it was made. No other
 * thread is between them. */
ph_status ph__nested_begin(const ph_graph *graph, ph_stream *stream, uint64_t capture_id,
                           const char *call);
void ph__nested_end(const ph_graph *graph, ph_stream *stream, uint64_t capture_id, bool made);
#endif
