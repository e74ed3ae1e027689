/* SPDX-License-Identifier: MIT */
/* driver/host/device/public.c: the calls of phonograph/host.h, by which programs read a raw graph
 * of the host device. */
#include "driver/host/capture/graph.h"
#include "driver/host/stream/entries.h"
#include <phonograph/host.h>

#include "base/status.h"

/* ph_host_graph and ph_host_node are the driver's graph and node under their public names. */
static ph_status copy_nodes(ph_host_node **nodes, size_t capacity, size_t *count, const char *call,
                            ph__drv_node *const *from, size_t available)
{
    if (capacity > 0 && !nodes)
        return ph__fail_null(call, "nodes");
    for (size_t i = 0; i < available && i < capacity; i++)
        nodes[i] = (ph_host_node *)from[i];
    *count = available;
    return PH_OK;
}

ph_status ph_host_graph_nodes(ph_host_node **nodes, size_t capacity, size_t *count,
                              ph_host_graph *graph)
{
    if (!count)
        return ph__fail_null("ph_host_graph_nodes", "count");
    *count = 0;
    if (!graph)
        return ph__fail_null("ph_host_graph_nodes", "graph");
    ph__drv_node *const *all;
    size_t available;
    int result = ph__host_graph_nodes(&all, &available, (ph__drv_graph *)graph);
    if (result != PH__R_OK)
        return ph__driver_fail(result, "cuGraphGetNodes",
                               "ph_host_graph_nodes: the graph cannot be read");
    return copy_nodes(nodes, capacity, count, "ph_host_graph_nodes", all, available);
}

ph_status ph_host_node_kind(ph_node_kind *out, ph_host_node *node)
{
    if (!out)
        return ph__fail_null("ph_host_node_kind", "out");
    *out = PH_NODE_KERNEL;
    if (!node)
        return ph__fail_null("ph_host_node_kind", "node");
    *out = ph__host_node_of((ph__drv_node *)node)->work.kind;
    return PH_OK;
}

ph_status ph_host_node_dependencies(ph_host_node **nodes, size_t capacity, size_t *count,
                                    ph_host_node *node)
{
    if (!count)
        return ph__fail_null("ph_host_node_dependencies", "count");
    *count = 0;
    if (!node)
        return ph__fail_null("ph_host_node_dependencies", "node");
    const ph__host_node *inner = ph__host_node_of((ph__drv_node *)node);
    return copy_nodes(nodes, capacity, count, "ph_host_node_dependencies", inner->dependencies,
                      inner->dependency_count);
}
