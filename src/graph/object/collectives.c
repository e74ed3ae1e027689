/* SPDX-License-Identifier: MIT */
/* graph/object/collectives.c: the nodes of collectives. */
#include "graph/object/collectives.h"
#include "device/handles/kernel.h"
#include <string.h>

bool ph__collective_is_node(const ph_graph *graph, size_t node)
{
    const ph__record_node *of = &graph->record->nodes[node];
    if (of->kernel)
        return of->kernel->collective;
    return of->info.kind == PH_NODE_KERNEL && of->info.name &&
           (strncmp(of->info.name, "ncclDevKernel", 13) == 0 ||
            strncmp(of->info.name, "ncclKernel", 10) == 0);
}
