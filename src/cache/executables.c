/* SPDX-License-Identifier: MIT */
/* cache/executables.c: what a graph's executable takes, and whether it is running. */
#include "cache/executables.h"
#include "base/status.h"
#include "device/capture/refuse.h"
#include "device/handles/hold.h"
#include "device/handles/stream.h"
#include "graph/object/graph.h"
#include "graph/object/segments.h"

/* Of the device, as measured: the driver takes memory for executables in large pieces, so that one
 * may have taken nothing and the next one all. */
size_t ph__graph_exec_bytes(ph_graph *graph)
{
    ph_graph_memory memory = {0};
    ph_error before;
    ph__error_save(&before);
    if (graph && ph_graph_get_memory(&memory, graph) != PH_OK)
        ph__error_restore(&before);
    return memory.executable;
}

/* Of a graph with breaks the one of its last segment. */
static ph_stream *last_stream_of(const ph_graph *graph)
{
    const ph__segments *segments = graph ? graph->segments : NULL;
    if (segments)
        graph = segments->list.at[segments->list.count - 1].graph;
    return graph ? graph->last_stream : NULL;
}

/* A capture does not survive the question, and none begins meanwhile. */
static bool is_idle(ph_stream *stream)
{
    ph_capture_mode mode;
    ph__shared_lock(&stream->asks);
    ph__stream_hold(stream);
    bool idle = ph__stream_is_free(stream);
    if (idle) {
        ph__relaxed_begin(stream->device, &mode);
        idle = stream->device->driver->stream_query(stream->handle) == PH__R_OK;
        ph__relaxed_end(stream->device, mode);
    }
    ph__stream_unhold(stream);
    ph__shared_unlock(&stream->asks);
    return idle;
}

/* Streams that are idle have no replay of it left. Of an entry's, under the cache's lock, where
 * nobody uses that. */
bool ph__graph_is_in_flight(const ph_graph *graph)
{
    ph_stream *stream = last_stream_of(graph);
    return stream && !is_idle(stream);
}
