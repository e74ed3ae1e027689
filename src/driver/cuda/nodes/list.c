/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/list.c: the list of a graph's nodes in the driver's order, and what each
 * depends on. */
#include "driver/cuda/nodes/list.h"
#include "base/alloc.h"
#include "driver/cuda/nodes/decode.h"
#include "driver/cuda/nodes/handles.h"

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

/* ---- what they depend on ---- */

/* Of all nodes, one after another: those of node i end at ends[i]. */
typedef struct all_links {
    size_t *ends;
    PH__VEC(ph__cu_node) nodes;
    PH__VEC(ph__cu_edge) edges;
} all_links;

static void free_all_links(all_links *all)
{
    ph__free(all->ends);
    ph__vec_free(&all->nodes);
    ph__vec_free(&all->edges);
}

static bool add_links(all_links *all, const ph__cuda_links *links)
{
    if (!ph__vec_reserve(&all->nodes, links->count) || !ph__vec_reserve(&all->edges, links->count))
        return false;
    for (size_t i = 0; i < links->count; i++) {
        all->nodes.at[all->nodes.count++] = links->nodes[i];
        all->edges.at[all->edges.count++] = links->edges[i];
    }
    return true;
}

/* Node by node: CUDA's time for the list of all edges grows with the square of their number
 * (docs/design/driver-facts.md). */
static int read_all_links(all_links *all, const ph__drv_graph *graph)
{
    size_t count = graph->handle_count;
    *all = (all_links){.ends = ph__calloc(count + 1, sizeof *all->ends)};
    int result =
        all->ends && ph__vec_reserve(&all->nodes, count) && ph__vec_reserve(&all->edges, count)
            ? PH__R_OK
            : PH__R_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && result == PH__R_OK; i++) {
        ph__cuda_links links;
        result = ph__cuda_links_read(&links, graph->handles[i]);
        if (result != PH__R_OK)
            break;
        if (!add_links(all, &links))
            result = PH__R_OUT_OF_MEMORY;
        all->ends[i] = all->nodes.count;
        ph__cuda_links_free(&links);
    }
    if (result != PH__R_OK)
        free_all_links(all);
    return result;
}

/* Gives the nodes what they depend on, but those of which it was read alone. */
static bool link_all_locked(ph__drv_graph *graph, const all_links *all)
{
    bool linked = true;
    for (size_t i = 0, at = 0; i < graph->nodes.count && linked; at = all->ends[i++]) {
        ph__drv_node *node = graph->nodes.at[i];
        const ph__cuda_links links = {
            .count = all->ends[i] - at, .nodes = all->nodes.at + at, .edges = all->edges.at + at};
        linked = node->has_links || ph__cuda_graph_link_locked(graph, &node->info, &links);
    }
    return linked;
}

static int link_nodes(ph__drv_graph *graph)
{
    all_links all;
    int result = read_all_links(&all, graph);
    if (result != PH__R_OK)
        return result;
    ph__spin_lock(&graph->device->cache_lock);
    bool linked = atomic_load_explicit(&graph->linked, memory_order_relaxed);
    if (!linked && link_all_locked(graph, &all)) {
        linked = true;
        atomic_store_explicit(&graph->linked, true, memory_order_release);
    }
    ph__spin_unlock(&graph->device->cache_lock);
    free_all_links(&all);
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
