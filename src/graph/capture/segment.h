/* SPDX-License-Identifier: MIT */
/* graph/capture/segment.h: captures that become several segments. */
#ifndef PH_GRAPH_CAPTURE_SEGMENT_H
#define PH_GRAPH_CAPTURE_SEGMENT_H
#include "graph/object/segments.h"

/* Ends the capture of a graph with breaks: the last segment, then what the user sees. After a
 * failure the graph is FAILED. */
ph_status ph__segments_end_capture(ph_graph *graph, const char *call);
#endif
