/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/root.c: nodes of a capture that depend on nothing, and streams that come to
 * depend on them. */
#include "driver/cuda/capture/root.h"
#include "driver/cuda/capture/capture.h"
#include "driver/cuda/capture/submission.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/load/kernel.h"
#include "driver/cuda/nodes/graph.h"
#include <string.h>

/* Where a stream stands in a capture; lent until the order is left. */
typedef struct place {
    int status;
    uint64_t id;
    ph__cu_graph graph;
    const ph__cu_node *nodes;
    size_t count;
} place;

static int find_root_place(place *out, const ph__drv_stream *stream)
{
    const ph__cu_edge *edges = NULL;
    *out = (place){.status = PH__CU_CAPTURE_STATUS_NONE};
    return ph__cu.StreamGetCaptureInfo(stream->handle, &out->status, &out->id, &out->graph,
                                       &out->nodes, &edges, &out->count);
}

static ph__cuda_capture *capture_of(ph__drv_device *device, uint64_t id)
{
    ph__spin_lock(&device->cache_lock);
    ph__cuda_capture *capture = ph__cuda_capture_find_locked(device, id);
    ph__spin_unlock(&device->cache_lock);
    return capture;
}

/* ---- roots ---- */

static int add_node(ph__cu_node *out, ph__cu_graph graph, const ph__drv_kernel *kernel,
                    const ph__drv_launch *launch)
{
    ph__cuda_scope scope;
    size_t bytes = kernel->args_end;
    void *extra[] = {PH__CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)launch->args,
                     PH__CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, PH__CU_LAUNCH_PARAM_END};
    ph__cu_kernel_params params = {.function = kernel->function,
                                   .shared_bytes = (unsigned)launch->shared_bytes,
                                   .extra = bytes > 0 ? extra : NULL};
    memcpy(params.grid, launch->grid, sizeof params.grid);
    memcpy(params.block, launch->block, sizeof params.block);
    int result = ph__cuda_enter(&scope, kernel->device);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.GraphAddKernelNode(out, graph, NULL, 0, &params);
    ph__cuda_leave(&scope);
    return result;
}

/* Under the order. A node that cannot be kept stays in the graph, to be read back with it, and
 * nothing depends on it. */
static int add_root(ph__drv_node **out, const ph__drv_stream *stream, const ph__drv_kernel *kernel,
                    const ph__drv_launch *launch)
{
    ph__drv_device *device = stream->device;
    ph__cu_node handle;
    place at;
    int result = find_root_place(&at, stream);
    if (result != PH__R_OK)
        return result;
    ph__cuda_capture *capture = capture_of(device, at.id);
    if (!capture)
        return PH__R_CAPTURE_UNSUPPORTED;
    if (!ph__vec_reserve(&capture->roots, 1))
        return PH__R_OUT_OF_MEMORY;
    result = add_node(&handle, at.graph, kernel, launch);
    if (result != PH__R_OK)
        return result;
    ph__spin_lock(&device->cache_lock);
    ph__drv_node *node = ph__cuda_graph_node_locked(capture->graph, handle);
    ph__spin_unlock(&device->cache_lock);
    if (!node)
        return PH__R_OUT_OF_MEMORY;
    capture->roots.at[capture->roots.count++] = handle;
    *out = node;
    return PH__R_OK;
}

static int find_refusal(const ph__drv_stream *stream)
{
    int status = PH__CU_CAPTURE_STATUS_NONE;
    int result = stream->handle ? ph__cu.StreamIsCapturing(stream->handle, &status) : PH__R_OK;
    if (result != PH__R_OK)
        return result;
    if (status == PH__CU_CAPTURE_STATUS_NONE)
        return PH__R_ILLEGAL_STATE;
    return status == PH__CU_CAPTURE_STATUS_INVALIDATED ? PH__R_CAPTURE_INVALIDATED
                                                       : PH__R_CAPTURE_UNSUPPORTED;
}

int ph__cuda_capture_root(ph__drv_node **out, ph__drv_stream *stream, ph__drv_kernel *kernel,
                          const ph__drv_launch *launch)
{
    ph__cuda_submission submission;
    if (kernel->device != stream->device)
        return PH__R_INVALID_HANDLE;
    if (kernel->args_end > 0 && !launch->args)
        return PH__R_INVALID_VALUE;
    ph__cuda_submission_begin(&submission, stream);
    if (!submission.capturing) {
        int why = submission.result == PH__R_OK ? find_refusal(stream) : submission.result;
        ph__cuda_submission_leave(&submission, stream);
        return why;
    }
    int result = add_root(out, stream, kernel, launch);
    ph__cuda_submission_keep_launch(&submission, stream, kernel, launch, result);
    return result;
}

/* ---- dependencies ---- */

static bool has_node(const place *at, ph__cu_node node)
{
    for (size_t i = 0; i < at->count; i++)
        if (at->nodes[i] == node)
            return true;
    return false;
}

/* A node that was there twice would be an edge that is there twice. */
static int add_dependency(const ph__drv_stream *stream, const ph__drv_node *node)
{
    place at;
    ph__cu_node handle = node->handle;
    int result = find_root_place(&at, stream);
    if (result != PH__R_OK)
        return result;
    if (at.status == PH__CU_CAPTURE_STATUS_NONE)
        return PH__R_ILLEGAL_STATE;
    if (at.status == PH__CU_CAPTURE_STATUS_INVALIDATED)
        return PH__R_CAPTURE_INVALIDATED;
    if (at.graph != node->graph->handle)
        return PH__R_INVALID_VALUE;
    return has_node(&at, handle)
               ? PH__R_OK
               : ph__cu.StreamUpdateCaptureDependencies(stream->handle, &handle, NULL, 1,
                                                        PH__CU_ADD_CAPTURE_DEPENDENCIES);
}

int ph__cuda_capture_depend(ph__drv_stream *stream, ph__drv_node *node)
{
    if (!stream->handle)
        return PH__R_ILLEGAL_STATE;
    bool entered = ph__cuda_order_enter(stream);
    int result = add_dependency(stream, node);
    ph__cuda_order_leave(stream, entered);
    return result;
}

bool ph__cuda_follows_root(ph__drv_stream *stream)
{
    place at;
    if (find_root_place(&at, stream) != PH__R_OK)
        return false;
    const ph__cuda_capture *capture = capture_of(stream->device, at.id);
    for (size_t i = 0; capture && i < capture->roots.count; i++)
        if (has_node(&at, capture->roots.at[i]))
            return true;
    return false;
}
