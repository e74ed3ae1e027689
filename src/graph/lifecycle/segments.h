/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/segments.h: replays of a graph with breaks. */
#ifndef PH_GRAPH_LIFECYCLE_SEGMENTS_H
#define PH_GRAPH_LIFECYCLE_SEGMENTS_H
#include "graph/object/segments.h"

/* Launches the segments, and calls the functions between them. The graph was checked for it. */
ph_status ph__segments_replay(ph_graph *graph, ph_stream *stream, const char *call);
/* Calls the function of a segment, which is number `after`; the graph is in use meanwhile. A
 * failure names the segment. */
ph_status ph__segments_call(ph_graph *graph, ph_stream *stream, const ph__graph_segment *segment,
                            size_t after, const char *call);
#endif
