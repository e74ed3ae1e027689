/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/account.c: what a graph takes, in bytes. */
#include "graph/inputs/brought.h"
#include "graph/locate/probes_exec.h"
#include "graph/memory/cells.h"
#include "graph/memory/epochs.h"
#include "graph/object/graph.h"
#include "graph/object/segments.h"
#include "graph/slots/slots_life.h"
#include "memory/capture/allocation_log.h"
#include "memory/reclaim/pinned_holders.h"
#include <string.h>

static bool graph_holds_pool(const void *user, const ph_pool *pool)
{
    return ph__graph_find_pool(user, pool) != NULL;
}

/* All but the pools, and what they keep. */
static void add_graph(ph_graph_memory *sum, ph_graph *graph)
{
    const ph__driver *driver = graph->device->driver;
    ph__drv_memory used = {0};
    if (graph->exec)
        driver->exec_memory(&used, graph->exec);
    sum->executable += (size_t)used.device_bytes;
    sum->executable_host += (size_t)used.host_bytes;
    if (graph->template)
        sum->template_host += driver->graph_host_bytes(graph->template);
    sum->template_host += ph__brought_bytes(graph) + ph__record_bytes(graph->record) +
                          ph__slots_bytes(graph) + ph__layout_bytes(&graph->layout) +
                          ph__layout_bytes(&graph->updated_layout);
    sum->cells += ph__cells_bytes(graph);
    sum->pinned += ph__locate_bytes(graph);
}

ph_status ph_graph_get_memory(ph_graph_memory *out, ph_graph *graph)
{
    if (out == NULL)
        return ph__fail_null("ph_graph_get_memory", "out");
    memset(out, 0, sizeof *out);
    PH_TRY(ph__graph_check(graph, PH__CALL_GET_MEMORY));
    ph_graph_memory sum = {0};
    for (size_t i = 0; i < graph->pools.count; i++) {
        ph_memory_stats stats;
        PH_TRY(ph_pool_stats(&stats, graph->pools.at[i]->pool));
        sum.pool_reserved += stats.reserved;
        sum.pool_allocated += stats.allocated;
    }
    add_graph(&sum, graph);
    for (size_t i = 0; graph->segments && i < graph->segments->list.count; i++)
        add_graph(&sum, graph->segments->list.at[i].graph);
    sum.planned = graph->plan_bytes;
    sum.plan_bound = graph->plan_bound;
    sum.plan_ended = graph->plan_ended;
    sum.pinned += ph__memory_pinned_held(graph->device, graph_holds_pool, graph);
    *out = sum;
    return PH_OK;
}
