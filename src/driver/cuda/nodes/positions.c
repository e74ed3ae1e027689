/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/positions.c: how many nodes a capture had at each of its positions. */
#include "driver/cuda/nodes/positions.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/list.h"

enum {
    NEAR = 64 /* nodes between two positions, mostly */
};

static size_t index_of(ph__drv_graph *graph, ph__cu_node handle, size_t near)
{
    for (size_t i = near; i < graph->nodes.count && i < near + NEAR; i++)
        if (graph->nodes.at[i]->handle == handle)
            return i;
    const ph__drv_node *node = ph__cuda_graph_find_locked(graph, handle);
    return node ? node->index : 0;
}

/* Positions become numbers of nodes, all at once. */
static void resolve_locked(ph__drv_graph *graph)
{
    size_t end = graph->frontiers.count, known = 0;
    for (size_t p = 0; p < graph->positions.count; p++) {
        size_t first = graph->positions.at[p];
        size_t after = p + 1 < graph->positions.count ? graph->positions.at[p + 1] : end;
        for (size_t i = first; i < after; i++) {
            size_t index = index_of(graph, graph->frontiers.at[i], known ? known - 1 : 0);
            known = index + 1 > known ? index + 1 : known;
        }
        graph->positions.at[p] = known;
    }
    ph__vec_free(&graph->frontiers);
    graph->resolved = true;
}

int ph__cuda_positions_resolve(ph__drv_graph *graph)
{
    if (graph->resolved || graph->positions.count == 0)
        return PH__R_OK;
    int result = ph__cuda_graph_list(graph);
    if (result != PH__R_OK)
        return result;
    ph__spin_lock(&graph->device->cache_lock);
    resolve_locked(graph);
    ph__spin_unlock(&graph->device->cache_lock);
    return PH__R_OK;
}

size_t ph__cuda_graph_position(ph__drv_graph *graph, uint64_t position)
{
    if (!graph || !graph->listed)
        return 0;
    ph__spin_lock(&graph->device->cache_lock);
    if (!graph->resolved)
        resolve_locked(graph);
    size_t nodes =
        position < graph->positions.count ? graph->positions.at[position] : graph->nodes.count;
    ph__spin_unlock(&graph->device->cache_lock);
    return nodes;
}
