/* SPDX-License-Identifier: MIT */
/* graph/capture/capture.h: one capture of a function. */
#ifndef PH_GRAPH_CAPTURE_CAPTURE_H
#define PH_GRAPH_CAPTURE_CAPTURE_H
#include <phonograph/graph.h>

/* ph_graph_capture without a plan, of a graph that may begin one. drop, read behind the function:
 * nothing is kept of the capture, and the graph is NEW again. */
ph_status ph__graph_capture_run(ph_graph *graph, ph_stream *stream,
                                const ph_capture_options *options, ph_capture_fn body, void *user,
                                const bool *drop);
#endif
