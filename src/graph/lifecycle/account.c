/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/account.c: what a graph takes, in bytes. */
#include "graph/inputs/brought.h"
#include "graph/locate/probes_exec.h"
#include "graph/memory/cells.h"
#include "graph/memory/epochs.h"
#include "graph/object/graph.h"
#include "graph/slots/slots_life.h"
#include "memory/capture/allocation_log.h"
#include "memory/reclaim/pinned_holders.h"
#include <string.h>

static bool graph_holds_pool(const void *user, const ph_pool *pool)
{
    return ph__graph_find_pool(user, pool) != NULL;
}

ph_status ph_graph_get_memory(ph_graph_memory *out, ph_graph *graph)
{
    if (out == NULL)
        return ph__fail_null("ph_graph_get_memory", "out");
    memset(out, 0, sizeof *out);
    PH_TRY(ph__graph_check(graph, PH__CALL_GET_MEMORY));
    const ph__driver *driver = graph->device->driver;
    ph_graph_memory sum = {0};
    for (size_t i = 0; i < graph->pools.count; i++) {
        ph_memory_stats stats;
        PH_TRY(ph_pool_stats(&stats, graph->pools.at[i]->pool));
        sum.pool_reserved += stats.reserved;
        sum.pool_allocated += stats.allocated;
    }
    if (graph->exec) {
        ph__drv_memory taken = {0};
        driver->exec_memory(&taken, graph->exec);
        sum.executable = (size_t)taken.device_bytes;
        sum.executable_host = (size_t)taken.host_bytes;
    }
    sum.template_host = driver->graph_host_bytes(graph->template) + ph__brought_bytes(graph) +
                        ph__record_bytes(graph->record) + ph__slots_bytes(graph) +
                        ph__layout_bytes(&graph->layout) + ph__layout_bytes(&graph->updated_layout);
    sum.planned = graph->plan_bytes;
    sum.plan_bound = graph->plan_bound;
    sum.plan_ended = graph->plan_ended;
    sum.cells = ph__cells_bytes(graph);
    sum.pinned =
        ph__memory_pinned_held(graph->device, graph_holds_pool, graph) + ph__locate_bytes(graph);
    *out = sum;
    return PH_OK;
}
