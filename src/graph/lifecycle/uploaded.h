/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/uploaded.h: the event behind an upload. */
#ifndef PH_GRAPH_LIFECYCLE_UPLOADED_H
#define PH_GRAPH_LIFECYCLE_UPLOADED_H
#include <phonograph/graph.h>

/* The stream, which is about to replay, comes after what ph_graph_upload submitted to another
 * one. */
ph_status ph__upload_wait(ph_graph *graph, const ph_stream *stream, const char *call);
/* There is no such executable any more. */
void ph__upload_drop(ph_graph *graph);
#endif
