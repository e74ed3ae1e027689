/* SPDX-License-Identifier: MIT */
/* graph/capture/capture.h: one capture of a function; parts of a capture's end, for whole captures
 * and for segments. */
#ifndef PH_GRAPH_CAPTURE_CAPTURE_H
#define PH_GRAPH_CAPTURE_CAPTURE_H
#include <phonograph/graph.h>

/* Reads the captured graph back while the pool still knows what the capture was given. */
ph_status ph__graph_read_open(ph_graph *graph, const char *call);
/* Fails for good: what the capture held goes at once, what the graph was told to retain stays
 * until reset. */
ph_status ph__graph_fail_capture(ph_graph *graph, ph_status status);
/* The graph is empty, with or without breaks: a warning; a failure where the capture is strict. */
ph_status ph__graph_report_empty(ph_graph *graph, const char *call);
/* ph_graph_capture without a plan, of a graph that may begin one. drop, read behind the function:
 * nothing is kept of the capture, and the graph is NEW again. */
ph_status ph__graph_capture_run(ph_graph *graph, ph_stream *stream,
                                const ph_capture_options *options, ph_capture_fn body, void *user,
                                const bool *drop);
#endif
