/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/shape.c: whether a graph has the kinds and edges of another one, by the driver's
 * lists alone. Captures of the same work are listed in the same order. */
#include "driver/cuda/exec/shape.h"
#include "driver/cuda/nodes/handles.h"

/* Mostly other code captured `from`, and nobody has asked for its nodes. */
static bool same_kinds(const ph__drv_graph *graph, const ph__drv_graph *from)
{
    bool listed = atomic_load_explicit(&from->listed, memory_order_acquire);
    const unsigned char *kinds = listed || from->submitted ? NULL : from->kinds;
    bool same = graph->handle_count == from->handle_count;
    for (size_t i = 0; i < graph->handle_count && same; i++) {
        ph_node_kind kind = graph->nodes.at[i]->info.kind;
        same = kind == (kinds ? (ph_node_kind)kinds[i] : ph__cuda_handles_kind(from, i)) &&
               kind != PH_NODE_MEMSET && kind != PH_NODE_GRAPH;
    }
    return same;
}

/* Whether the i-th node of `from` depends on the nodes in the places of those that `mine`, which
 * stands there in `graph`, depends on, in their order. */
static bool same_links(const ph__drv_node *mine, const ph__drv_graph *from,
                       const ph__cuda_links *links)
{
    bool same = mine->info.dependency_count == links->count;
    for (size_t i = 0; i < links->count && same; i++) {
        bool programmatic =
            mine->info.dependency_kinds && mine->info.dependency_kinds[i] == PH_EDGE_PROGRAMMATIC;
        same = links->nodes[i] == from->handles[mine->info.dependencies[i]->index] &&
               programmatic == (links->edges[i].type == PH__CU_DEPENDENCY_TYPE_PROGRAMMATIC);
    }
    return same;
}

int ph__cuda_same_shape(bool *same, ph__drv_graph *graph, ph__drv_graph *from)
{
    *same = false;
    int result = ph__cuda_handles_read_kinds(from);
    if (result != PH__R_OK || !same_kinds(graph, from))
        return result;
    *same = true;
    for (size_t i = 0; i < from->handle_count && *same; i++) {
        ph__cuda_links links;
        result = ph__cuda_links_read(&links, from->handles[i]);
        *same = result == PH__R_OK && same_links(graph->nodes.at[i], from, &links);
        if (result == PH__R_OK)
            ph__cuda_links_free(&links);
    }
    return result;
}
