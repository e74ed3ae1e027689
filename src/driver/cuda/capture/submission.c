/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/submission.c: keeping the submissions of this library to capturing
 * streams, as they are made. Each makes one node, and CUDA lists nodes in the order in which they
 * were made, as the submissions are: which submission made which node is found out when the graph
 * is listed (nodes/handles.c), and what each depends on is read then, all at once. */
#include "driver/cuda/capture/submission.h"
#include "driver/cuda/capture/capture.h"
#include "driver/cuda/load/kernel.h"
#include "driver/cuda/nodes/graph.h"
#include <string.h>

void ph__cuda_submission_query(ph__cuda_submission *submission, ph__drv_stream *stream)
{
    int status = PH__CU_CAPTURE_STATUS_NONE;
    ph__spin_lock(&stream->device->order);
    int result = ph__cu.StreamGetCaptureInfo(stream->handle, &status, &submission->id, NULL, NULL,
                                             NULL, NULL);
    submission->result = result;
    submission->capturing = result == PH__R_OK && status == PH__CU_CAPTURE_STATUS_ACTIVE;
    if (!submission->capturing)
        ph__spin_unlock(&stream->device->order);
}

/* One with room for so many bytes of arguments, and nothing in it; NULL: no host memory. */
static ph__cuda_submitted *make_submitted_locked(ph__drv_graph *graph, size_t args_size)
{
    ph__cuda_submitted *kept = ph__vec_reserve(&graph->submissions, 1)
                                   ? ph__cuda_graph_room_locked(graph, sizeof *kept + args_size)
                                   : NULL;
    if (kept)
        graph->submissions.at[graph->submissions.count++] = kept;
    else
        graph->submissions_lost = true;
    return kept;
}

static void add_launch_locked(ph__drv_graph *graph, ph__drv_kernel *kernel,
                              const ph__drv_launch *launch)
{
    ph__cuda_submitted *kept = make_submitted_locked(graph, kernel->args_size);
    if (!kept)
        return;
    kept->node = NULL;
    kept->kernel = kernel;
    kept->shared_bytes = launch->shared_bytes;
    memcpy(kept->grid, launch->grid, sizeof kept->grid);
    memcpy(kept->block, launch->block, sizeof kept->block);
    if (kernel->args_size)
        memcpy(kept->args, launch->args, kernel->args_size);
}

void ph__cuda_submission_keep_launch(ph__cuda_submission *submission, ph__drv_stream *stream,
                                     ph__drv_kernel *kernel, const ph__drv_launch *launch,
                                     int result)
{
    ph__drv_device *device = stream->device;
    if (result == PH__R_OK) {
        ph__spin_lock(&device->cache_lock);
        const ph__cuda_capture *capture = ph__cuda_capture_find_locked(device, submission->id);
        if (capture)
            add_launch_locked(capture->graph, kernel, launch);
        ph__spin_unlock(&device->cache_lock);
    }
    ph__cuda_submission_leave(submission, stream);
}

static void add_node_locked(ph__drv_graph *graph, const ph__drv_node *node)
{
    ph__cuda_submitted *kept = make_submitted_locked(graph, 0);
    if (!kept)
        return;
    kept->node = ph__cuda_graph_room_locked(graph, sizeof *kept->node);
    graph->submissions_lost = graph->submissions_lost || !kept->node;
    if (!kept->node)
        return;
    graph->copies = true; /* the node may be a copy, as it is no launch */
    *kept->node = *node;
    kept->node->graph = graph;
    kept->node->self = kept->node;
}

void ph__cuda_submission_add(ph__drv_device *device, uint64_t id, const ph__drv_node *node)
{
    ph__spin_lock(&device->cache_lock);
    const ph__cuda_capture *capture = ph__cuda_capture_find_locked(device, id);
    if (capture)
        add_node_locked(capture->graph, node);
    ph__spin_unlock(&device->cache_lock);
}

void ph__cuda_submission_keep(ph__cuda_submission *submission, ph__drv_stream *stream,
                              const ph__drv_node *node, int result)
{
    if (result == PH__R_OK)
        ph__cuda_submission_add(stream->device, submission->id, node);
    ph__cuda_submission_leave(submission, stream);
}
