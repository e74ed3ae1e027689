/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/submission.c: keeping the submissions of this library to capturing
 * streams, as they are made. Each makes one node, and CUDA lists nodes in the order in which they
 * were made, as the submissions are: which submission made which node is found out when the graph
 * is listed (nodes/list.c), and what each depends on is read then, all at once. */
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

/* An empty submission; NULL: no host memory. */
static ph__drv_node *make_node_locked(ph__drv_graph *graph)
{
    ph__drv_node *kept = ph__vec_reserve(&graph->submissions, 1)
                             ? ph__cuda_graph_room_locked(graph, sizeof *kept)
                             : NULL;
    if (!kept) {
        graph->submissions_lost = true;
        return NULL;
    }
    memset(kept, 0, sizeof *kept);
    kept->graph = graph;
    kept->self = kept;
    graph->submissions.at[graph->submissions.count++] = kept;
    return kept;
}

static void add_launch_locked(ph__drv_graph *graph, ph__drv_kernel *kernel,
                              const ph__drv_launch *launch)
{
    ph__drv_node *kept = make_node_locked(graph);
    void *args =
        kept && kernel->args_size ? ph__cuda_graph_room_locked(graph, kernel->args_size) : NULL;
    if (!kept)
        return;
    kept->info.kind = PH_NODE_KERNEL;
    kept->info.kernel = kernel;
    kept->info.kernel_name = kernel->name;
    kept->info.launch = *launch;
    kept->info.launch.capture_id = NULL;
    kept->info.args_size = kernel->args_size;
    kept->info.launch.args = args ? memcpy(args, launch->args, kernel->args_size) : NULL;
    graph->submissions_lost = graph->submissions_lost || (kernel->args_size && !args);
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
    ph__drv_node *kept = make_node_locked(graph);
    if (!kept)
        return;
    *kept = *node;
    kept->graph = graph;
    kept->self = kept;
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
