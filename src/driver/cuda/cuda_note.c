/* SPDX-License-Identifier: MIT */
/* driver/cuda/cuda_note.c: noting the nodes that this library submits to capturing streams, as they are made. Each makes one node, and
 * CUDA lists nodes in the order in which they were made, as are the notes: which note is of which node is found out when the graph is
 * listed (cuda_graph.c), and what each depends on is read then, all at once. */
#include "driver/cuda/cuda_driver.h"
#include <string.h>

void ph__cuda_note_look(ph__cuda_note *note, ph__drv_stream *stream)
{
    int status = PH__CU_CAPTURE_STATUS_NONE;
    ph__spin_lock(&stream->device->order);
    int result = ph__cu.StreamGetCaptureInfo(stream->handle, &status, &note->id, NULL, NULL, NULL, NULL);
    note->capturing = result == PH__R_OK && status == PH__CU_CAPTURE_STATUS_ACTIVE;
    if (!note->capturing)
        ph__spin_unlock(&stream->device->order);
}

static bool add_locked(ph__drv_graph *graph, const ph__drv_node *node)
{
    if (!ph__vec_reserve(&graph->notes, 1))
        return false;
    ph__drv_node *kept = ph__cuda_graph_room_locked(graph, sizeof *kept);
    if (!kept)
        return false;
    *kept = *node;
    kept->graph = graph;
    kept->self = kept;
    kept->info.launch.capture_id = NULL;
    if (kept->info.args_size > 0) {
        void *args = ph__cuda_graph_room_locked(graph, kept->info.args_size);
        if (!args)
            return false;
        kept->info.launch.args = memcpy(args, node->info.launch.args, kept->info.args_size);
    }
    graph->notes.at[graph->notes.count++] = kept;
    return true;
}

void ph__cuda_note_add(ph__drv_device *device, uint64_t id, const ph__drv_node *node)
{
    ph__spin_lock(&device->pictures);
    const ph__cuda_capture *capture = ph__cuda_capture_find_locked(device, id);
    if (capture && !add_locked(capture->graph, node))
        capture->graph->notes_lost = true;
    ph__spin_unlock(&device->pictures);
}

void ph__cuda_note_keep(ph__cuda_note *note, ph__drv_stream *stream, const ph__drv_node *node, int result)
{
    if (result == PH__R_OK)
        ph__cuda_note_add(stream->device, note->id, node);
    ph__spin_unlock(&stream->device->order);
}
