/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/list.c: the list of a graph's nodes: in the driver's order, with what
 * the submissions of this library are known to have made. */
#include "driver/cuda/nodes/list.h"
#include "base/alloc.h"
#include "driver/cuda/load/unload.h"
#include "driver/cuda/nodes/decode.h"

enum {
    FIRST_NODES = 64
};

/* The driver's list: *out is to be freed. It is asked once where `guess` is above the number. */
static int read_handles(ph__cu_node **out, size_t *count, const ph__drv_graph *graph, size_t guess)
{
    for (size_t room = guess + FIRST_NODES;; room *= 2) {
        ph__cu_node *handles = ph__calloc(room, sizeof *handles);
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
    return !graph->submissions_lost && graph->submissions.count == count;
}

/* The node of a handle; where nobody has met it, the submission becomes it. */
static ph__drv_node *adopt_locked(ph__drv_graph *graph, ph__cu_node handle,
                                  ph__drv_node *submission)
{
    submission->handle = handle;
    if (graph->unmapped)
        return submission;
    ph__drv_node *met = ph__map_get(&graph->by_handle, (uintptr_t)handle);
    if (!met)
        return ph__map_put(&graph->by_handle, (uintptr_t)handle, submission) ? submission : NULL;
    if (atomic_load_explicit(&met->decoded, memory_order_relaxed))
        return met;
    met->info = submission->info;
    met->is_core_fill = submission->is_core_fill;
    met->is_plain_copy = submission->is_plain_copy;
    met->src_type = submission->src_type;
    met->dst_type = submission->dst_type;
    met->layout = submission->layout;
    return met;
}

static bool list_locked(ph__drv_graph *graph, const ph__cu_node *handles, size_t count,
                        bool submitted)
{
    ph__vec_clear(&graph->nodes);
    graph->unmapped = submitted && graph->by_handle.count == 0;
    if (!ph__vec_reserve(&graph->nodes, count) ||
        (!graph->unmapped && graph->by_handle.count < count &&
         !ph__map_reserve(&graph->by_handle, count - graph->by_handle.count)))
        return false;
    for (size_t i = 0; i < count; i++) {
        ph__drv_node *node = submitted ? adopt_locked(graph, handles[i], graph->submissions.at[i])
                                       : ph__cuda_graph_node_locked(graph, handles[i]);
        if (!node) {
            ph__vec_clear(&graph->nodes);
            return false;
        }
        node->index = i;
        graph->nodes.at[graph->nodes.count++] = node;
    }
    return true;
}

/* ---- edges, of all nodes at once ---- */

typedef struct edge_list {
    size_t count;
    ph__cu_node *from, *to;
    ph__cu_edge *edges;
} edge_list;

static int read_edges(edge_list *out, const ph__drv_graph *graph)
{
    for (size_t room = 2 * graph->nodes.count + FIRST_NODES;; room *= 2) {
        char *block = ph__calloc(room, 2 * sizeof *out->from + sizeof *out->edges);
        if (!block)
            return PH__R_OUT_OF_MEMORY;
        out->from = (ph__cu_node *)(void *)block;
        out->to = out->from + room;
        out->edges = (ph__cu_edge *)(void *)(out->to + room);
        out->count = room;
        int result =
            ph__cu.GraphGetEdges(graph->handle, out->from, out->to, out->edges, &out->count);
        if (result == PH__R_OK && out->count < room)
            return PH__R_OK;
        ph__free(block);
        if (result != PH__R_OK)
            return result;
    }
}

static bool is_programmatic(const ph__cu_edge *edge)
{
    return edge->type == PH__CU_DEPENDENCY_TYPE_PROGRAMMATIC;
}

/* Not read back yet. */
static bool is_open(const ph__drv_node *node)
{
    return !atomic_load_explicit(&node->decoded, memory_order_relaxed);
}

/* Room for the lists, of those nodes that are not read back yet. */
static bool make_lists_locked(ph__drv_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        ph__drv_node *node = graph->nodes.at[i];
        size_t count = node->info.dependency_count;
        if (!is_open(node))
            continue;
        node->info.dependency_count = 0;
        if (node->info.launch.programmatic) {
            ph_edge_kind *kinds = ph__cuda_graph_room_locked(graph, count * sizeof *kinds);
            if (!kinds)
                return false;
            for (size_t k = 0; k < count; k++)
                kinds[k] = PH_EDGE_FULL;
            node->info.dependency_kinds = kinds;
        }
        if (count < 2)
            continue;
        node->info.dependencies =
            ph__cuda_graph_room_locked(graph, count * sizeof *node->info.dependencies);
        if (!node->info.dependencies)
            return false;
    }
    return true;
}

static void put_edge(ph__drv_node *to, ph__drv_node *from, const ph__cu_edge *edge)
{
    ph__drv_node_info *info = &to->info;
    size_t at = info->dependency_count++;
    if (!info->dependencies)
        info->dependencies = &from->self;
    else
        ((ph__drv_node **)(uintptr_t)info->dependencies)[at] = from;
    if (is_programmatic(edge))
        ((ph_edge_kind *)(uintptr_t)info->dependency_kinds)[at] = PH_EDGE_PROGRAMMATIC;
}

/* The node of a handle: mostly that after the last one, or the last one again. */
static ph__drv_node *find_near(ph__drv_graph *graph, ph__cu_node handle, size_t *last)
{
    for (size_t i = *last; i < graph->nodes.count && i <= *last + 1; i++)
        if (graph->nodes.at[i]->handle == handle) {
            *last = i;
            return graph->nodes.at[i];
        }
    ph__drv_node *node = ph__cuda_graph_find_locked(graph, handle);
    if (node)
        *last = node->index;
    return node;
}

/* Gives the nodes that are not read back yet what they depend on. */
static bool link_locked(ph__drv_graph *graph, const edge_list *list)
{
    PH__VEC(ph__drv_node *) ends = {0};
    if (!ph__vec_reserve(&ends, 2 * list->count))
        return false;
    for (size_t i = 0; i < graph->nodes.count; i++)
        if (is_open(graph->nodes.at[i])) {
            graph->nodes.at[i]->info.dependencies = NULL;
            graph->nodes.at[i]->info.dependency_kinds = NULL;
            graph->nodes.at[i]->info.dependency_count = 0;
            graph->nodes.at[i]->info.launch.programmatic = false;
        }
    size_t from = 0, to = 0;
    for (size_t i = 0; i < list->count; i++) {
        ends.at[2 * i] = find_near(graph, list->from[i], &from);
        ends.at[2 * i + 1] = find_near(graph, list->to[i], &to);
        if (!ends.at[2 * i] || !ends.at[2 * i + 1]) {
            ph__vec_free(&ends);
            return false;
        }
        ph__drv_node *end = ends.at[2 * i + 1];
        if (!is_open(end))
            continue;
        end->info.dependency_count++;
        end->info.launch.programmatic =
            end->info.launch.programmatic || is_programmatic(&list->edges[i]);
    }
    bool linked = make_lists_locked(graph);
    for (size_t i = 0; i < list->count && linked; i++)
        if (is_open(ends.at[2 * i + 1]))
            put_edge(ends.at[2 * i + 1], ends.at[2 * i], &list->edges[i]);
    ph__vec_free(&ends);
    return linked;
}

/* All that was submitted is known of its nodes now; of graph nodes only the kind was. */
static void close_submissions_locked(ph__drv_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        ph__drv_node *node = graph->nodes.at[i];
        node->has_kind = true;
        if (node->info.kind != PH_NODE_GRAPH)
            atomic_store_explicit(&node->decoded, true, memory_order_release);
    }
}

static int link_nodes(ph__drv_graph *graph, bool submitted)
{
    edge_list list;
    int result = read_edges(&list, graph);
    if (result != PH__R_OK)
        return result;
    ph__spin_lock(&graph->device->cache_lock);
    bool linked = atomic_load_explicit(&graph->linked, memory_order_relaxed);
    if (!linked && link_locked(graph, &list)) {
        linked = true;
        if (submitted)
            close_submissions_locked(graph);
        atomic_store_explicit(&graph->linked, true, memory_order_release);
    }
    ph__spin_unlock(&graph->device->cache_lock);
    ph__free(list.from);
    return linked ? PH__R_OK : PH__R_OUT_OF_MEMORY;
}

int ph__cuda_graph_link(ph__drv_graph *graph)
{
    int result = graph->listed ? PH__R_OK : ph__cuda_graph_list(graph);
    if (result != PH__R_OK || atomic_load_explicit(&graph->linked, memory_order_acquire))
        return result;
    for (size_t i = 0; i < graph->nodes.count && result == PH__R_OK; i++)
        result = ph__cuda_decode_kind(graph->nodes.at[i]);
    return result == PH__R_OK ? link_nodes(graph, false) : result;
}

int ph__cuda_graph_list(ph__drv_graph *graph)
{
    ph__cu_node *handles;
    size_t count;
    ph__spin_lock(&graph->device->cache_lock);
    size_t known = graph->by_handle.count + graph->submissions.count;
    ph__spin_unlock(&graph->device->cache_lock);
    int result = read_handles(&handles, &count, graph, known);
    if (result != PH__R_OK)
        return result;
    bool submitted = !graph->capturing && submissions_match(graph, count);
    if (graph->kernels == 0 || graph->capturing)
        graph->kernels = ph__cuda_kernel_count(graph->device);
    ph__spin_lock(&graph->device->cache_lock);
    bool listed = list_locked(graph, handles, count, submitted);
    ph__spin_unlock(&graph->device->cache_lock);
    ph__free(handles);
    if (!listed)
        return PH__R_OUT_OF_MEMORY;
    if (submitted && (result = link_nodes(graph, true)) != PH__R_OK)
        return result;
    graph->listed = !graph->capturing;
    return PH__R_OK;
}
