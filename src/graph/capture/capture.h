/* SPDX-License-Identifier: MIT */
/* graph/capture/capture.h: parts of a capture's end, for whole captures and for segments. */
#ifndef PH_GRAPH_CAPTURE_CAPTURE_H
#define PH_GRAPH_CAPTURE_CAPTURE_H
#include <phonograph/graph.h>

/* Reads the captured graph back while the pool still knows what the capture was given. */
ph_status ph__graph_read_open(ph_graph *graph, const char *call);
/* Fails for good: what the capture held goes at once, what the graph was told to retain stays
 * until reset. */
ph_status ph__graph_fail_capture(ph_graph *graph, ph_status status);
/* The warning about an empty graph; a failure where the capture is strict. */
ph_status ph__graph_report_empty(const ph_graph *graph, const char *call);
#endif
