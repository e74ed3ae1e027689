/* SPDX-License-Identifier: MIT */
/* graph/object/collectives.c: the nodes of collectives. */
#include "graph/object/collectives.h"
#include "device/handles/kernel.h"

bool ph__collective_is_node(const ph_graph *graph, size_t node)
{
    const ph_kernel *kernel = graph->record->nodes[node].kernel;
    return kernel && kernel->collective;
}
