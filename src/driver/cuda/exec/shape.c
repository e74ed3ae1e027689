/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/shape.c: whether a graph has the kinds and edges of another one, by the driver's
 * lists alone. Captures of the same work are listed in the same order. */
#include "driver/cuda/exec/shape.h"
#include "base/alloc.h"
#include "driver/cuda/nodes/handles.h"
#include "driver/cuda/nodes/list.h"

static bool same_kinds(const ph__drv_graph *graph, const ph__drv_graph *from)
{
    bool same = graph->handle_count == from->handle_count;
    for (size_t i = 0; i < graph->handle_count && same; i++) {
        ph_node_kind kind = ph__cuda_handles_kind(graph, i);
        same = kind == ph__cuda_handles_kind(from, i) && kind != PH_NODE_MEMSET &&
               kind != PH_NODE_GRAPH;
    }
    return same;
}

/* Of the graph, for all that it will be compared with. */
static int keep_edges(ph__drv_graph *graph)
{
    ph__cuda_edge_list list;
    if (graph->edges)
        return PH__R_OK;
    int result = ph__cuda_edges_read(&list, graph);
    if (result != PH__R_OK)
        return result;
    ph__cuda_edge *edges = ph__alloc((list.count + 1) * sizeof *edges);
    size_t from = 0, to = 0;
    bool found = edges != NULL;
    ph__spin_lock(&graph->device->cache_lock);
    for (size_t i = 0; i < list.count && found; i++) {
        found = ph__cuda_graph_find_near_locked(graph, list.from[i], &from) &&
                ph__cuda_graph_find_near_locked(graph, list.to[i], &to);
        edges[i] = (ph__cuda_edge){(uint32_t)from, (uint32_t)to, list.edges[i]};
    }
    ph__spin_unlock(&graph->device->cache_lock);
    if (found) {
        graph->edges = edges;
        graph->edge_count = list.count;
    } else {
        ph__free(edges);
    }
    ph__free(list.from);
    return found ? PH__R_OK : PH__R_OUT_OF_MEMORY;
}

static bool is_same(const ph__cu_edge *a, const ph__cu_edge *b)
{
    return a->from_port == b->from_port && a->to_port == b->to_port && a->type == b->type;
}

static bool same_edges(const ph__drv_graph *graph, const ph__drv_graph *from,
                       const ph__cuda_edge_list *list)
{
    bool same = graph->edge_count == list->count;
    for (size_t i = 0; i < list->count && same; i++) {
        const ph__cuda_edge *mine = &graph->edges[i];
        same = list->from[i] == from->handles[mine->from] &&
               list->to[i] == from->handles[mine->to] && is_same(&list->edges[i], &mine->edge);
    }
    return same;
}

int ph__cuda_same_shape(bool *same, ph__drv_graph *graph, ph__drv_graph *from)
{
    ph__cuda_edge_list list;
    *same = false;
    if (graph->handle_count > UINT32_MAX || graph->capturing || from->capturing)
        return PH__R_OK;
    int result = ph__cuda_handles_read_kinds(from);
    if (result != PH__R_OK || !same_kinds(graph, from))
        return result;
    result = keep_edges(graph);
    if (result == PH__R_OK)
        result = ph__cuda_edges_read(&list, from);
    if (result != PH__R_OK)
        return result;
    *same = same_edges(graph, from, &list);
    ph__free(list.from);
    return PH__R_OK;
}
