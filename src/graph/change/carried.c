/* SPDX-License-Identifier: MIT */
/* graph/change/carried.c: whether another capture of a graph's work can take its place: what its
 * user has added to it, or switched, would be lost. */
#include "graph/change/carried.h"
#include "graph/locate/locate.h"
#include "graph/locate/probes.h"
#include "graph/object/deferred_record.h"

static bool has_hooks(const ph_graph *graph)
{
    for (size_t point = 0; point < PH__HOOK_POINTS; point++)
        if (atomic_load_explicit(&graph->hooks.counts[point], memory_order_relaxed))
            return true;
    return false;
}

static bool watches_replays(const ph_graph *graph)
{
    return graph->locate && (graph->locate->breadcrumbs.on || graph->locate->checks.on);
}

static const char *what_is_added(const ph_graph *graph)
{
    return graph->collectives       ? "it has collectives, which all ranks keep or none"
           : graph->cells           ? "it has cells"
           : graph->slots           ? "it has slots"
           : has_hooks(graph)       ? "it has hooks (ph_graph_hook_add)"
           : watches_replays(graph) ? "its breadcrumbs or checks are switched on"
                                    : NULL;
}

static ph_status find_disabled(bool *found, ph_graph *graph, const char *call)
{
    *found = false;
    PH_TRY(ph__graph_need_record(graph, call));
    for (size_t i = 0; i < graph->record->node_count && !*found; i++) {
        const ph__record_node *node = &graph->record->nodes[i];
        bool enabled = true;
        if (node->info.kind > PH_NODE_MEMSET || ph__locate_call_of(graph, i))
            continue;
        int result = graph->device->driver->exec_get_enabled(&enabled, graph->exec, node->handle);
        if (result != PH__R_OK)
            return ph__driver_fail(result, PH__NAME_GRAPH_NODE_GET_ENABLED, "%s: node %zu (%s)",
                                   call, i, node->info.name);
        *found = !enabled;
    }
    return PH_OK;
}

ph_status ph__graph_not_carried(const char **why, ph_graph *graph, const ph_graph *other,
                                const char *call)
{
    bool disabled;
    *why = what_is_added(graph);
    if (*why == NULL)
        *why = what_is_added(other);
    if (*why)
        return PH_OK;
    PH_TRY(find_disabled(&disabled, graph, call));
    *why = disabled ? "a node of it is switched off (ph_graph_node_set_enabled)" : NULL;
    return PH_OK;
}
