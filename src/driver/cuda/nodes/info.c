/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/info.c: what the node cache answers: the nodes of a graph, and what each is. */
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/decode.h"
#include "driver/cuda/nodes/list.h"
#include <string.h>

int ph__cuda_graph_nodes(ph__drv_node *const **nodes, size_t *count, ph__drv_graph *graph)
{
    if (!graph)
        return PH__R_INVALID_VALUE;
    int result = ph__cuda_graph_list(graph);
    if (result != PH__R_OK)
        return result;
    *nodes = graph->nodes.at;
    *count = graph->nodes.count;
    return PH__R_OK;
}

int ph__cuda_node_info(ph__drv_node_info *out, ph__drv_node *node)
{
    int result = node->graph->capturing ? PH__R_OK : ph__cuda_graph_link(node->graph);
    if (result == PH__R_OK)
        result = ph__cuda_decode(node);
    if (result != PH__R_OK)
        return result;
    *out = node->info;
    if (out->kind == PH_NODE_MEMSET)
        out->form = node->is_core_fill && !node->is_lowered ? "kernel" : "fill";
    return PH__R_OK;
}

int ph__cuda_node_kind(ph_node_kind *out, ph__drv_node *node)
{
    int result = ph__cuda_decode_kind(node);
    if (result == PH__R_OK)
        *out = node->info.kind;
    return result;
}

bool ph__cuda_graph_has_launches(ph__drv_graph *graph)
{
    return graph &&
           (graph->submitted || atomic_load_explicit(&graph->has_launches, memory_order_relaxed));
}

bool ph__cuda_node_launch(ph__drv_launch *out, const ph__drv_node *node)
{
    if (!atomic_load_explicit(&node->decoded, memory_order_acquire) ||
        node->info.kind != PH_NODE_KERNEL)
        return false;
    const ph__drv_launch *launch = &node->info.launch; /* programmatic may be being read */
    *out = (ph__drv_launch){.shared_bytes = launch->shared_bytes, .args = launch->args};
    memcpy(out->grid, launch->grid, sizeof out->grid);
    memcpy(out->block, launch->block, sizeof out->block);
    return true;
}
