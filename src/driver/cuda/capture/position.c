/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/position.c: the position of a capture, which separates nodes made before and
 * after it once the capture is over.
 * - CUDA counts the nodes of a graph by walking them: 4.7 us at 1,000 nodes and 217 us at 20,000
 *   (docs/design/driver-facts.md), too much for each scope.
 * - CUDA reports the dependencies of a stream's next node in 20 ns. The newest node of a capture is
 *   among those of its stream, until a newer one takes its place.
 * - So the dependencies of all streams show which node was the newest (nodes/positions.c). */
#include "driver/cuda/capture/capture.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/graph.h"
#include <string.h>

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
