/* SPDX-License-Identifier: MIT */
/* graph/capture/planned.h: a capture whose memory is planned. */
#ifndef PH_GRAPH_CAPTURE_PLANNED_H
#define PH_GRAPH_CAPTURE_PLANNED_H
#include <phonograph/graph.h>

/* ph_graph_capture with ph_capture_options.plan, of a graph that may begin a capture. */
ph_status ph__graph_capture_planned(ph_graph *graph, ph_stream *stream,
                                    const ph_capture_options *options, ph_capture_fn body,
                                    void *user);
/* ARGUMENT: the call cannot have the option. */
ph_status ph__fail_plan(const char *call, const char *why);
#endif
