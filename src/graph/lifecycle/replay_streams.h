/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/replay_streams.h: the streams that replayed a graph. */
#ifndef PH_GRAPH_LIFECYCLE_REPLAY_STREAMS_H
#define PH_GRAPH_LIFECYCLE_REPLAY_STREAMS_H
#include <phonograph/graph.h>

/* Remembers a stream that is about to replay. */
ph_status ph__graph_note_stream(ph_graph *graph, ph_stream *stream, const char *call);
#endif
