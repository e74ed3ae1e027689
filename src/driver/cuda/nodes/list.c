/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/list.c: the list of a graph's nodes in the driver's order, and what each
 * depends on. */
#include "driver/cuda/nodes/list.h"
#include "base/alloc.h"
#include "driver/cuda/nodes/decode.h"
#include "driver/cuda/nodes/handles.h"

enum {
    FIRST_EDGES = 64
};

static bool list_locked(ph__drv_graph *graph)
{
    ph__vec_clear(&graph->nodes);
    if (!ph__vec_reserve(&graph->nodes, graph->handle_count) ||
        (!graph->unmapped && graph->by_handle.count < graph->handle_count &&
         !ph__map_reserve(&graph->by_handle, graph->handle_count - graph->by_handle.count)))
        return false;
    for (size_t i = 0; i < graph->handle_count; i++) {
        ph__drv_node *node = ph__cuda_handles_node_locked(graph, i);
        if (!node) {
            ph__vec_clear(&graph->nodes);
            return false;
        }
        graph->nodes.at[graph->nodes.count++] = node;
    }
    return true;
}

int ph__cuda_graph_list(ph__drv_graph *graph)
{
    if (atomic_load_explicit(&graph->listed, memory_order_acquire))
        return PH__R_OK;
    int result = ph__cuda_handles_read(graph);
    if (result != PH__R_OK)
        return result;
    ph__spin_lock(&graph->device->cache_lock);
    bool listed = atomic_load_explicit(&graph->listed, memory_order_relaxed) || list_locked(graph);
    if (listed && !graph->capturing)
        atomic_store_explicit(&graph->listed, true, memory_order_release);
    ph__spin_unlock(&graph->device->cache_lock);
    return listed ? PH__R_OK : PH__R_OUT_OF_MEMORY;
}

/* ---- edges, of all nodes at once ---- */

int ph__cuda_edges_read(ph__cuda_edge_list *out, const ph__drv_graph *graph)
{
    for (size_t room = 2 * graph->handle_count + FIRST_EDGES;; room *= 2) {
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

/* Room for the lists, of those nodes that have none yet. */
static bool make_lists_locked(ph__drv_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        ph__drv_node *node = graph->nodes.at[i];
        size_t count = node->info.dependency_count;
        if (node->has_links)
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

ph__drv_node *ph__cuda_graph_find_near_locked(ph__drv_graph *graph, ph__cu_node handle,
                                              size_t *last)
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

/* Gives the nodes what they depend on, but those of which it was read alone. */
static bool link_locked(ph__drv_graph *graph, const ph__cuda_edge_list *list)
{
    PH__VEC(ph__drv_node *) ends = {0};
    if (!ph__vec_reserve(&ends, 2 * list->count))
        return false;
    for (size_t i = 0; i < graph->nodes.count; i++)
        if (!graph->nodes.at[i]->has_links) {
            graph->nodes.at[i]->info.dependencies = NULL;
            graph->nodes.at[i]->info.dependency_kinds = NULL;
            graph->nodes.at[i]->info.dependency_count = 0;
            graph->nodes.at[i]->info.launch.programmatic = false;
        }
    size_t from = 0, to = 0;
    for (size_t i = 0; i < list->count; i++) {
        ends.at[2 * i] = ph__cuda_graph_find_near_locked(graph, list->from[i], &from);
        ends.at[2 * i + 1] = ph__cuda_graph_find_near_locked(graph, list->to[i], &to);
        if (!ends.at[2 * i] || !ends.at[2 * i + 1]) {
            ph__vec_free(&ends);
            return false;
        }
        ph__drv_node *end = ends.at[2 * i + 1];
        if (end->has_links)
            continue;
        end->info.dependency_count++;
        end->info.launch.programmatic =
            end->info.launch.programmatic || is_programmatic(&list->edges[i]);
    }
    bool linked = make_lists_locked(graph);
    for (size_t i = 0; i < list->count && linked; i++)
        if (!ends.at[2 * i + 1]->has_links)
            put_edge(ends.at[2 * i + 1], ends.at[2 * i], &list->edges[i]);
    ph__vec_free(&ends);
    return linked;
}

static int link_nodes(ph__drv_graph *graph)
{
    ph__cuda_edge_list list;
    int result = ph__cuda_edges_read(&list, graph);
    if (result != PH__R_OK)
        return result;
    ph__spin_lock(&graph->device->cache_lock);
    bool linked = atomic_load_explicit(&graph->linked, memory_order_relaxed);
    if (!linked && link_locked(graph, &list)) {
        linked = true;
        atomic_store_explicit(&graph->linked, true, memory_order_release);
    }
    ph__spin_unlock(&graph->device->cache_lock);
    ph__free(list.from);
    return linked ? PH__R_OK : PH__R_OUT_OF_MEMORY;
}

int ph__cuda_graph_link(ph__drv_graph *graph)
{
    if (atomic_load_explicit(&graph->linked, memory_order_acquire))
        return PH__R_OK;
    int result = ph__cuda_graph_list(graph);
    for (size_t i = 0; result == PH__R_OK && i < graph->nodes.count; i++)
        result = ph__cuda_decode_kind(graph->nodes.at[i]);
    return result == PH__R_OK ? link_nodes(graph) : result;
}
