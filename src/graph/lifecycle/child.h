/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/child.h: a graph that is nested in the capture of another one. */
#ifndef PH_GRAPH_LIFECYCLE_CHILD_H
#define PH_GRAPH_LIFECYCLE_CHILD_H
#include "graph/object/graph.h"

/* Puts a copy of the template into the capture that the stream is in. *over: another thread has
 * ended the capture meanwhile, and nothing was done. */
ph_status ph__graph_into_capture(bool *over, ph_graph *graph, ph_stream *stream,
                                 uint64_t capture_id, const char *call);
/* The capture is over: what was lent becomes the graph's; *nested: the ranges of the capture and
 * of all that was lent, to be freed by the caller also after a failure. */
ph_status ph__graph_acquire_lent(ph__ranges *nested, ph_graph *graph, const ph__ranges *own,
                                 const char *call);
void ph__graph_drop_lent(ph_graph *graph);
#endif
