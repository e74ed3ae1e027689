/* SPDX-License-Identifier: MIT */
/* driver/cuda/cuda_note.c: noting the nodes that this library submits to captures, as they are made. */
#include "driver/cuda/cuda_driver.h"
#include <string.h>

static bool any_edge_data(const ph__cu_edge *edges, size_t count)
{
    for (size_t i = 0; edges && i < count; i++)
        if (edges[i].from_port || edges[i].to_port || edges[i].type)
            return true;
    return false;
}

void ph__cuda_note_look(ph__cuda_note *note, ph__drv_stream *stream)
{
    int status = PH__CU_CAPTURE_STATUS_NONE;
    const ph__cu_node *nodes = NULL;
    const ph__cu_edge *edges = NULL;
    size_t count = 0;
    ph__spin_lock(&stream->order);
    int result =
        ph__cu.StreamGetCaptureInfo(stream->handle, &status, &note->id, NULL, &nodes, &edges, &count);
    if (result != PH__R_OK || status != PH__CU_CAPTURE_STATUS_ACTIVE) {
        ph__spin_unlock(&stream->order);
        return;
    }
    note->capturing = true;
    note->read_edges = any_edge_data(edges, count);
    note->keep = ph__cuda_links_copy(&note->links, nodes, NULL, count);
}

/* The node that was made: what the stream's next one depends on, alone. NULL: it cannot be told. */
static ph__cu_node made(const ph__cuda_note *note, const ph__drv_stream *stream)
{
    int status = PH__CU_CAPTURE_STATUS_NONE;
    uint64_t id = 0;
    const ph__cu_node *nodes = NULL;
    const ph__cu_edge *edges = NULL;
    size_t count = 0;
    int result = ph__cu.StreamGetCaptureInfo(stream->handle, &status, &id, NULL, &nodes, &edges, &count);
    bool single =
        result == PH__R_OK && status == PH__CU_CAPTURE_STATUS_ACTIVE && id == note->id && count == 1;
    if (!single || (note->links.count == 1 && note->links.nodes[0] == nodes[0]))
        return NULL;
    return nodes[0];
}

/* What is known already stays: it was read back. Nobody looks at what stands in a node before it is decoded. */
static void add_locked(ph__drv_graph *graph, ph__cu_node handle, const ph__drv_node *node,
                       const ph__cuda_links *links)
{
    ph__drv_node_info edges; /* first, as what the node depends on was mostly looked up last */
    if (!ph__cuda_graph_link_locked(graph, &edges, links))
        return;
    ph__drv_node *kept = ph__cuda_graph_node_locked(graph, handle);
    if (!kept || atomic_load_explicit(&kept->decoded, memory_order_relaxed))
        return;
    kept->info = node->info;
    kept->info.launch.programmatic = edges.launch.programmatic;
    kept->info.dependencies = edges.dependencies;
    kept->info.dependency_kinds = edges.dependency_kinds;
    kept->info.dependency_count = edges.dependency_count;
    if (kept->info.args_size > 0) {
        void *args = ph__cuda_graph_room_locked(graph, kept->info.args_size);
        if (!args)
            return;
        kept->info.launch.args = memcpy(args, node->info.launch.args, kept->info.args_size);
    }
    kept->noted = true;
    kept->is_core_fill = node->is_core_fill;
    kept->is_plain_copy = node->is_plain_copy;
    kept->src_type = node->src_type;
    kept->dst_type = node->dst_type;
    atomic_store_explicit(&kept->decoded, true, memory_order_release);
}

static void keep(ph__cuda_note *note, ph__drv_stream *stream, const ph__drv_node *node)
{
    ph__cu_node handle = made(note, stream);
    if (!handle)
        return;
    if (note->read_edges) {
        ph__cuda_links_free(&note->links);
        note->keep = ph__cuda_links_read(&note->links, handle) == PH__R_OK;
        if (!note->keep)
            return;
    }
    ph__spin_lock(&stream->device->pictures);
    const ph__cuda_capture *capture = ph__cuda_capture_find_locked(stream->device, note->id);
    if (capture)
        add_locked(capture->graph, handle, node, &note->links);
    ph__spin_unlock(&stream->device->pictures);
}

void ph__cuda_note_keep(ph__cuda_note *note, ph__drv_stream *stream, const ph__drv_node *node, int result)
{
    if (result == PH__R_OK && note->keep)
        keep(note, stream, node);
    if (note->keep)
        ph__cuda_links_free(&note->links);
    ph__spin_unlock(&stream->order);
}
