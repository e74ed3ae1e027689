/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/replay_streams.c: the streams that replayed a graph. */
#include "graph/lifecycle/replay_streams.h"
#include "device/handles/hold.h"
#include "graph/locate/probes_exec.h"
#include "graph/memory/cells_replay.h"
#include "graph/object/graph.h"

/* Streams that the user destroyed and that are idle can have nothing of the graph in flight.
 * Asking is legal while no capture is open. */
static void forget_idle_streams(ph_graph *graph)
{
    const ph__driver *driver = graph->device->driver;
    size_t kept = 0;
    if (atomic_load(&graph->device->open_captures))
        return;
    for (size_t i = 0; i < graph->streams.count; i++) {
        ph_stream *stream = graph->streams.at[i];
        bool idle = false;
        if (atomic_load(&stream->destroyed) && ph__stream_capture_id(stream) == 0) {
            ph__stream_hold(stream);
            idle = driver->stream_query(stream->handle) == PH__R_OK;
            ph__stream_unhold(stream);
        }
        if (idle)
            ph__stream_release(stream);
        else
            graph->streams.at[kept++] = stream;
    }
    graph->streams.count = kept;
}

ph_status ph__graph_note_stream(ph_graph *graph, ph_stream *stream, const char *call)
{
    bool known = false;
    for (size_t i = 0; i < graph->streams.count && !known; i++)
        known = graph->streams.at[i] == stream;
    if (!known) {
        forget_idle_streams(graph);
        PH_TRY(ph__cells_note_stream(graph, stream, call));
        PH_TRY(ph__locate_note_stream(graph, stream));
        if (!ph__vec_push(&graph->streams, stream))
            return ph__fail_host_memory(call, "the streams of the graph");
        ph__stream_retain(stream);
    }
    graph->last_stream = stream;
    return PH_OK;
}
