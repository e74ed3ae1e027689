/* SPDX-License-Identifier: MIT */
/* driver/host/capture/child.c: child graphs: copies of finished graphs as nodes of a capture. */
#include "driver/host/capture/child.h"
#include "driver/host/capture/capture.h"
#include "driver/host/stream/entries.h"

/* The body of a clone is its own, so that it lives as long as the clone. */
static bool clone_node(ph__host_graph *clone, const ph__host_node *node)
{
    ph__host_node_set dependencies;
    ph__host_work work = node->work;
    if (!ph__host_set_translate(clone, &dependencies, node->dependencies, node->dependency_count))
        return false;
    if (work.body) {
        work.body = ph__host_graph_clone(work.body);
        if (!work.body)
            return false;
    }
    if (ph__host_graph_add(clone, &work, &dependencies))
        return true;
    ph__host_graph_destroy((ph__drv_graph *)work.body);
    return false;
}

ph__host_graph *ph__host_graph_clone(const ph__host_graph *graph)
{
    ph__host_graph *clone = ph__host_graph_create(graph->device);
    bool ok = clone != NULL;
    for (size_t i = 0; ok && i < graph->nodes.count; i++)
        ok = clone_node(clone, ph__host_node_of(graph->nodes.at[i]));
    if (ok)
        return clone;
    ph__host_graph_destroy((ph__drv_graph *)clone);
    return NULL;
}

int ph__host_child(ph__drv_stream *stream_handle, ph__drv_graph *graph_handle)
{
    ph__host_stream *stream = (ph__host_stream *)stream_handle;
    ph__host_graph *graph = ph__host_graph_of(graph_handle);
    if (!stream || !graph)
        return PH__R_INVALID_VALUE;
    if (graph->device != stream->device)
        return PH__R_INVALID_HANDLE;
    if (!atomic_load_explicit(&stream->capturing, memory_order_acquire)) {
        ph__driver_set_reason(
            "a graph becomes a node of a capture alone, and the stream is not capturing");
        return PH__R_ILLEGAL_STATE;
    }
    if (ph__host_graph_is_capturing(graph)) {
        ph__driver_set_reason("the graph is still being captured");
        return PH__R_ILLEGAL_STATE;
    }
    ph__host_graph *body = ph__host_graph_clone(graph);
    if (!body)
        return PH__R_OUT_OF_MEMORY;
    int result = ph__host_record_child(stream, body);
    if (result)
        ph__host_graph_destroy((ph__drv_graph *)body);
    return result;
}
