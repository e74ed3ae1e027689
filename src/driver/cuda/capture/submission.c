/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/submission.c: noting the nodes that this library submits to capturing
 * streams, as they are made. Each makes one node, and CUDA lists nodes in the order in which
 * they were made, as are the notes: which note is of which node is found out when the graph is
 * listed (cuda_list.c), and what each depends on is read then, all at once. */
#include "driver/cuda/load/cuda_driver.h"
#include <string.h>

void ph__cuda_note_look(ph__cuda_note *note, ph__drv_stream *stream)
{
    int status = PH__CU_CAPTURE_STATUS_NONE;
    ph__spin_lock(&stream->device->order);
    int result =
        ph__cu.StreamGetCaptureInfo(stream->handle, &status, &note->id, NULL, NULL, NULL, NULL);
    note->result = result;
    note->capturing = result == PH__R_OK && status == PH__CU_CAPTURE_STATUS_ACTIVE;
    if (!note->capturing)
        ph__spin_unlock(&stream->device->order);
}

/* An empty note; NULL: no host memory. */
static ph__drv_node *make_locked(ph__drv_graph *graph)
{
    ph__drv_node *kept =
        ph__vec_reserve(&graph->notes, 1) ? ph__cuda_graph_room_locked(graph, sizeof *kept) : NULL;
    if (!kept) {
        graph->notes_lost = true;
        return NULL;
    }
    memset(kept, 0, sizeof *kept);
    kept->graph = graph;
    kept->self = kept;
    graph->notes.at[graph->notes.count++] = kept;
    return kept;
}

static void add_launch_locked(ph__drv_graph *graph, ph__drv_kernel *kernel,
                              const ph__drv_launch *launch)
{
    ph__drv_node *kept = make_locked(graph);
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
    graph->notes_lost = graph->notes_lost || (kernel->args_size && !args);
}

void ph__cuda_note_launch(ph__cuda_note *note, ph__drv_stream *stream, ph__drv_kernel *kernel,
                          const ph__drv_launch *launch, int result)
{
    ph__drv_device *device = stream->device;
    if (result == PH__R_OK) {
        ph__spin_lock(&device->pictures);
        const ph__cuda_capture *capture = ph__cuda_capture_find_locked(device, note->id);
        if (capture)
            add_launch_locked(capture->graph, kernel, launch);
        ph__spin_unlock(&device->pictures);
    }
    ph__cuda_note_leave(note, stream);
}

static void add_locked(ph__drv_graph *graph, const ph__drv_node *node)
{
    ph__drv_node *kept = make_locked(graph);
    if (!kept)
        return;
    *kept = *node;
    kept->graph = graph;
    kept->self = kept;
}

void ph__cuda_note_add(ph__drv_device *device, uint64_t id, const ph__drv_node *node)
{
    ph__spin_lock(&device->pictures);
    const ph__cuda_capture *capture = ph__cuda_capture_find_locked(device, id);
    if (capture)
        add_locked(capture->graph, node);
    ph__spin_unlock(&device->pictures);
}

void ph__cuda_note_keep(ph__cuda_note *note, ph__drv_stream *stream, const ph__drv_node *node,
                        int result)
{
    if (result == PH__R_OK)
        ph__cuda_note_add(stream->device, note->id, node);
    ph__cuda_note_leave(note, stream);
}
