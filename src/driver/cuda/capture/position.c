/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/position.c: the position of a capture, which separates nodes made before and
 * after it once the capture is over.
 * - CUDA counts the nodes of a graph by walking them: 4.7 us at 1,000 nodes and 217 us at 20,000
 *   (docs/design/driver-facts.md), too much for each scope.
 * - CUDA reports the dependencies of a stream's next node in 20 ns. The newest node of a capture is
 *   among those of its stream, until a newer one takes its place.
 * - So the dependencies of all streams show which node was the newest. */
#include "driver/cuda/capture/capture.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/graph.h"
#include <string.h>

enum {
    NEAR = 64 /* nodes between two positions, mostly */
};

static int add_frontier(ph__drv_graph *graph, const ph__drv_stream *stream, uint64_t id)
{
    int status = PH__CU_CAPTURE_STATUS_NONE;
    uint64_t seen = 0;
    const ph__cu_node *nodes = NULL;
    const ph__cu_edge *edges = NULL;
    size_t count = 0;
    int result =
        ph__cu.StreamGetCaptureInfo(stream->handle, &status, &seen, NULL, &nodes, &edges, &count);
    if (result != PH__R_OK || status != PH__CU_CAPTURE_STATUS_ACTIVE || seen != id)
        return PH__R_OK; /* the stream is not in this capture */
    if (!ph__vec_reserve(&graph->frontiers, count))
        return PH__R_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        graph->frontiers.at[graph->frontiers.count++] = nodes[i];
    return PH__R_OK;
}

/* The last position again, where every stream stands as it did. */
static bool is_last(const ph__drv_graph *graph, size_t first)
{
    size_t positions = graph->positions.count, count = graph->frontiers.count - first;
    if (positions == 0)
        return false;
    size_t last = graph->positions.at[positions - 1];
    return first - last == count &&
           (count == 0 || memcmp(&graph->frontiers.at[last], &graph->frontiers.at[first],
                                 count * sizeof *graph->frontiers.at) == 0);
}

/* Under the order, which keeps streams from being destroyed and captures from ending. */
static int record_position(uint64_t *position, ph__drv_graph *graph, const ph__drv_device *device,
                           uint64_t id)
{
    size_t first = graph->frontiers.count;
    int result = ph__vec_reserve(&graph->positions, 1) ? PH__R_OK : PH__R_OUT_OF_MEMORY;
    for (const ph__drv_stream *s = device->streams; s && result == PH__R_OK; s = s->next)
        result = add_frontier(graph, s, id);
    if (result != PH__R_OK || is_last(graph, first))
        graph->frontiers.count = first;
    else
        graph->positions.at[graph->positions.count++] = first;
    *position = graph->positions.count - 1;
    return result;
}

int ph__cuda_capture_position(uint64_t *position, ph__drv_stream *stream)
{
    int status = PH__CU_CAPTURE_STATUS_NONE;
    uint64_t id = 0;
    if (!stream || !position)
        return PH__R_INVALID_VALUE;
    if (!stream->handle)
        return PH__R_ILLEGAL_STATE;
    ph__drv_device *device = stream->device;
    bool entered = ph__cuda_order_enter(stream);
    int result = ph__cu.StreamGetCaptureInfo(stream->handle, &status, &id, NULL, NULL, NULL, NULL);
    if (result == PH__R_OK && status == PH__CU_CAPTURE_STATUS_NONE)
        result = PH__R_ILLEGAL_STATE;
    else if (result == PH__R_OK && status != PH__CU_CAPTURE_STATUS_ACTIVE)
        result = PH__R_CAPTURE_INVALIDATED;
    if (result == PH__R_OK) {
        ph__spin_lock(&device->cache_lock);
        ph__cuda_capture *capture = ph__cuda_capture_find_locked(device, id);
        ph__spin_unlock(&device->cache_lock);
        result = capture ? record_position(position, capture->graph, device, id)
                         : PH__R_CAPTURE_INVALIDATED;
    }
    ph__cuda_order_leave(stream, entered);
    return result;
}

static size_t index_of(ph__drv_graph *graph, ph__cu_node handle, size_t near)
{
    for (size_t i = near; i < graph->nodes.count && i < near + NEAR; i++)
        if (graph->nodes.at[i]->handle == handle)
            return i;
    const ph__drv_node *node = ph__cuda_graph_find_locked(graph, handle);
    return node ? node->index : 0;
}

/* Positions become numbers of nodes, all at once. */
static void resolve_locked(ph__drv_graph *graph)
{
    size_t end = graph->frontiers.count, known = 0;
    for (size_t p = 0; p < graph->positions.count; p++) {
        size_t first = graph->positions.at[p];
        size_t after = p + 1 < graph->positions.count ? graph->positions.at[p + 1] : end;
        for (size_t i = first; i < after; i++) {
            size_t index = index_of(graph, graph->frontiers.at[i], known ? known - 1 : 0);
            known = index + 1 > known ? index + 1 : known;
        }
        graph->positions.at[p] = known;
    }
    ph__vec_free(&graph->frontiers);
    graph->resolved = true;
}

size_t ph__cuda_graph_position(ph__drv_graph *graph, uint64_t position)
{
    if (!graph || !graph->listed)
        return 0;
    ph__spin_lock(&graph->device->cache_lock);
    if (!graph->resolved)
        resolve_locked(graph);
    size_t nodes =
        position < graph->positions.count ? graph->positions.at[position] : graph->nodes.count;
    ph__spin_unlock(&graph->device->cache_lock);
    return nodes;
}
