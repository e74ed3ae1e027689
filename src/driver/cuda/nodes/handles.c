/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/handles.c: handles and kinds of a graph's nodes, in the driver's order, with
 * what the submissions of this library are known to have made. Of a captured graph mostly nothing
 * more is ever asked for. */
#include "driver/cuda/nodes/handles.h"
#include "base/alloc.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/load/kernel.h"
#include "driver/cuda/load/unload.h"
#include "driver/cuda/nodes/decode.h"
#include <string.h>

enum {
    FIRST_NODES = 64
};

/* The driver's list: *out is to be freed. It is asked once where `guess` is above the number. */
static int ask_for_handles(ph__cu_node **out, size_t *count, const ph__drv_graph *graph,
                           size_t guess)
{
    for (size_t room = guess + FIRST_NODES;; room *= 2) {
        ph__cu_node *handles = ph__alloc(room * sizeof *handles);
        if (!handles)
            return PH__R_OUT_OF_MEMORY;
        *count = room;
        int result = ph__cu.GraphGetNodes(graph->handle, handles, count);
        if (result == PH__R_OK && *count < room) {
            *out = handles;
            return PH__R_OK;
        }
        ph__free(handles);
        if (result != PH__R_OK)
            return result;
    }
}

/* Whether the submissions are of all nodes, one by one. Each makes one node at least, so that
 * equal numbers leave no room for nodes of other code. */
static bool submissions_match(const ph__drv_graph *graph, size_t count)
{
    return !graph->capturing && !graph->submissions_lost && graph->submissions.count == count;
}

int ph__cuda_handles_read(ph__drv_graph *graph)
{
    ph__cu_node *handles;
    size_t count;
    if (graph->read)
        return PH__R_OK;
    ph__spin_lock(&graph->device->cache_lock);
    size_t known = graph->by_handle.count + graph->submissions.count;
    ph__spin_unlock(&graph->device->cache_lock);
    int result = ask_for_handles(&handles, &count, graph, known);
    if (result != PH__R_OK)
        return result;
    if (graph->kernels == 0 || graph->capturing)
        graph->kernels = ph__cuda_kernel_count(graph->device);
    ph__spin_lock(&graph->device->cache_lock);
    ph__cu_node *before = graph->handles;
    graph->handles = handles;
    graph->handle_count = count;
    graph->submitted = submissions_match(graph, count);
    graph->unmapped = graph->submitted && graph->by_handle.count == 0;
    graph->read = !graph->capturing;
    ph__spin_unlock(&graph->device->cache_lock);
    ph__free(before);
    return PH__R_OK;
}

int ph__cuda_graph_count(size_t *count, ph__drv_graph *graph)
{
    int result = graph ? ph__cuda_handles_read(graph) : PH__R_INVALID_VALUE;
    if (result == PH__R_OK)
        *count = graph->handle_count;
    return result;
}

bool ph__cuda_graph_is_own(ph__drv_graph *graph)
{
    return graph && ph__cuda_handles_read(graph) == PH__R_OK && graph->submitted;
}

/* ---- kinds ---- */

/* Copies, fills and what may hold some. */
static bool is_copied(ph_node_kind kind)
{
    return kind == PH_NODE_MEMCPY || kind == PH_NODE_MEMSET || kind == PH_NODE_GRAPH;
}

int ph__cuda_handles_read_kinds(ph__drv_graph *graph)
{
    int result = ph__cuda_handles_read(graph);
    if (result != PH__R_OK || graph->submitted || graph->kinds)
        return result;
    unsigned char *kinds = ph__alloc(graph->handle_count + 1);
    if (!kinds)
        return PH__R_OUT_OF_MEMORY;
    graph->copies = false;
    for (size_t i = 0; i < graph->handle_count && result == PH__R_OK; i++) {
        int type = PH_NODE_EMPTY;
        result = ph__cu.GraphNodeGetType(graph->handles[i], &type);
        if (result == PH__R_INVALID_CONTEXT)
            result = ph__cuda_decode_handle_type(&type, graph, graph->handles[i]);
        kinds[i] = (unsigned char)type;
        graph->copies = graph->copies || is_copied((ph_node_kind)type);
    }
    if (result == PH__R_OK)
        graph->kinds = kinds;
    else
        ph__free(kinds);
    return result;
}

ph_node_kind ph__cuda_handles_kind(const ph__drv_graph *graph, size_t i)
{
    bool listed = atomic_load_explicit(&graph->listed, memory_order_acquire);
    if (listed && graph->nodes.at[i]->has_kind)
        return graph->nodes.at[i]->info.kind;
    if (graph->submitted)
        return graph->submissions.at[i]->node ? graph->submissions.at[i]->node->info.kind
                                              : PH_NODE_KERNEL;
    return graph->kinds ? (ph_node_kind)graph->kinds[i] : PH_NODE_EMPTY;
}

/* ---- single nodes ---- */

/* NULL: no host memory. */
static ph__drv_node *submitted_node_locked(ph__drv_graph *graph, ph__cuda_submitted *submitted)
{
    if (submitted->node)
        return submitted->node;
    ph__drv_kernel *kernel = submitted->kernel;
    ph__drv_node *node = ph__cuda_graph_room_locked(graph, sizeof *node);
    if (!node)
        return NULL;
    *node = (ph__drv_node){.graph = graph,
                           .self = node,
                           .info = {.kind = PH_NODE_KERNEL,
                                    .kernel = kernel,
                                    .kernel_name = kernel->name,
                                    .launch = {.shared_bytes = submitted->shared_bytes,
                                               .args = kernel->args_size ? submitted->args : NULL},
                                    .args_size = kernel->args_size}};
    memcpy(node->info.launch.grid, submitted->grid, sizeof submitted->grid);
    memcpy(node->info.launch.block, submitted->block, sizeof submitted->block);
    submitted->node = node;
    return node;
}

/* The node of a handle; where nobody has met it, that of the submission becomes it. All that was
 * submitted is known of it; of graph nodes only the kind was. */
static ph__drv_node *adopt_locked(ph__drv_graph *graph, ph__cu_node handle,
                                  ph__cuda_submitted *submitted)
{
    ph__drv_node *submission = submitted_node_locked(graph, submitted);
    if (!submission)
        return NULL;
    submission->handle = handle;
    submission->has_kind = true;
    ph__drv_node *met =
        graph->unmapped ? submission : ph__map_get(&graph->by_handle, (uintptr_t)handle);
    if (!met)
        met = ph__map_put(&graph->by_handle, (uintptr_t)handle, submission) ? submission : NULL;
    if (!met || atomic_load_explicit(&met->decoded, memory_order_relaxed))
        return met;
    if (met != submission) {
        met->has_kind = true;
        met->info = submission->info;
        met->is_core_fill = submission->is_core_fill;
        met->is_plain_copy = submission->is_plain_copy;
        met->src_type = submission->src_type;
        met->dst_type = submission->dst_type;
        met->layout = submission->layout;
    }
    if (met->info.kind != PH_NODE_GRAPH)
        atomic_store_explicit(&met->decoded, true, memory_order_release);
    return met;
}

ph__drv_node *ph__cuda_handles_node_locked(ph__drv_graph *graph, size_t i)
{
    ph__drv_node *node = graph->submitted
                             ? adopt_locked(graph, graph->handles[i], graph->submissions.at[i])
                             : ph__cuda_graph_node_locked(graph, graph->handles[i]);
    if (!node)
        return NULL;
    node->index = i;
    if (graph->kinds && !node->has_kind) {
        node->info.kind = (ph_node_kind)graph->kinds[i];
        node->has_kind = true;
    }
    return node;
}

/* ---- copies ---- */

static int read_copied(ph__drv_copied *out, ph__drv_graph *graph, size_t i)
{
    ph__spin_lock(&graph->device->cache_lock);
    ph__drv_node *node = ph__cuda_handles_node_locked(graph, i);
    ph__spin_unlock(&graph->device->cache_lock);
    int result = node ? ph__cuda_decode(node) : PH__R_OUT_OF_MEMORY;
    if (result != PH__R_OK)
        return result;
    const ph__drv_node_info *info = &node->info;
    bool copies = info->kind == PH_NODE_MEMCPY;
    *out = (ph__drv_copied){.found = true,
                            .kind = info->kind,
                            .dst = copies ? info->copy.dst : info->fill.dst,
                            .src = copies ? info->copy.src : NULL,
                            .body = info->body};
    return PH__R_OK;
}

int ph__cuda_graph_next_copy(ph__drv_copied *out, size_t *at, ph__drv_graph *graph)
{
    int result = graph ? ph__cuda_handles_read_kinds(graph) : PH__R_INVALID_VALUE;
    if (result != PH__R_OK)
        return result;
    *out = (ph__drv_copied){.found = false};
    if (!graph->copies)
        *at = graph->handle_count;
    while (!out->found && result == PH__R_OK && *at < graph->handle_count) {
        size_t i = (*at)++;
        if (is_copied(ph__cuda_handles_kind(graph, i)))
            result = read_copied(out, graph, i);
    }
    return result;
}
