/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/replay.h: what replays of whatever graph do first. */
#ifndef PH_GRAPH_LIFECYCLE_REPLAY_H
#define PH_GRAPH_LIFECYCLE_REPLAY_H
#include <phonograph/graph.h>

/* Remembers a stream that is about to replay. */
ph_status ph__graph_note_stream(ph_graph *graph, ph_stream *stream, const char *call);
#endif
