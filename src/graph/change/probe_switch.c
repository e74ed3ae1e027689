/* SPDX-License-Identifier: MIT */
/* graph/change/probe_switch.c: switching the probe nodes of a graph on and off, and the memory that
 * they write. */
#include "graph/change/probe_switch.h"
#include "base/log.h"
#include "graph/locate/locate.h"
#include "graph/locate/probes.h"
#include "graph/locate/probes_exec.h"
#include "graph/object/graph.h"
#include "graph/slots/slots_life.h"
#include <string.h>

/* ---- the table ---- */
static size_t table_bytes(const ph__probes *probes)
{
    if (probes->kernel == PH__PROBE_BREADCRUMB)
        return (1 + probes->nodes.count) * sizeof(uint64_t);
    const ph__probe_node *last = &probes->nodes.at[probes->nodes.count - 1];
    return (1 + last->part + last->blocks) * sizeof(ph__drv_finite_part);
}

/* Its streams write the table from now on: given back, it waits for them. Those that are
 * destroyed do not replay any more. */
static ph_status note_streams(const ph_graph *graph, void *table)
{
    for (size_t i = 0; i < graph->streams.count; i++)
        if (!atomic_load(&graph->streams.at[i]->destroyed))
            PH_TRY(ph_record_stream(table, graph->streams.at[i]));
    return PH_OK;
}

static ph_status make_table(ph_graph *graph, ph__probes *probes, const char *call)
{
    void *table;
    size_t bytes = table_bytes(probes);
    if (probes->table)
        return PH_OK;
    ph_status status = ph_malloc_pinned(&table, 1, bytes, &graph->device->default_stream);
    if (status == PH_OK) {
        memset(table, 0, bytes);
        status = note_streams(graph, table);
        if (status != PH_OK)
            ph_free_pinned(table, NULL);
    }
    if (status != PH_OK) {
        ph__error_prefix("%s: the memory that its nodes write", call);
        return status;
    }
    probes->table = table;
    probes->bytes = bytes;
    return PH_OK;
}

/* ---- switching ---- */
/* The arguments for the executable's node: those of the capture or of the last update, with the
 * slots' values in them, and the table. */
static void complete_args(ph__probe_node *out, const ph_graph *graph, const ph__probes *probes,
                          const ph__probe_node *node)
{
    *out = *node;
    if (probes->kernel == PH__PROBE_BREADCRUMB || node == &probes->root) {
        out->args.breadcrumb.table = probes->table;
        return;
    }
    const void *slots = ph__slots_args(graph, node->index);
    if (slots)
        memcpy(&out->args.finite, slots, sizeof out->args.finite);
    out->args.finite.parts = (ph__drv_finite_part *)(uintptr_t)ph__probe_part(probes, node->part);
}

static int give_node(const ph_graph *graph, const ph__probes *probes, const ph__probe_node *node)
{
    ph__probe_node complete;
    ph__drv_launch launch;
    if (node->index == SIZE_MAX)
        return PH__R_OK;
    complete_args(&complete, graph, probes, node);
    ph__probe_launch(&launch, probes, node);
    launch.args = &complete.args;
    return graph->device->driver->exec_set_kernel(graph->exec, node->handle, &launch);
}

static int give_arguments(const ph_graph *graph, ph__probes *probes)
{
    int result = give_node(graph, probes, &probes->root);
    for (size_t i = 0; i < probes->nodes.count && result == PH__R_OK; i++)
        result = give_node(graph, probes, &probes->nodes.at[i]);
    probes->given = result == PH__R_OK;
    return result;
}

static ph_status fail_switch(int result, const char *driver_call, const char *call)
{
    if (result == PH__R_OUT_OF_MEMORY)
        return ph__fail_host_memory(call, "the change");
    return ph__driver_fail(result, driver_call, "%s: they are as they were", call);
}

static ph_status switch_nodes(ph_graph *graph, ph__probes *probes, bool enabled, const char *call)
{
    PH_TRY(ph__rule_check(graph->device, PH__RULE_EXEC_SET));
    PH_TRY(ph__rule_check(graph->device, PH__RULE_EXEC_ENABLE));
    if (enabled && !probes->given) {
        PH_TRY(make_table(graph, probes, call));
        int given = give_arguments(graph, probes);
        if (given != PH__R_OK)
            return fail_switch(given, PH__NAME_GRAPH_EXEC_KERNEL_NODE_SET_PARAMS, call);
    }
    int result = ph__probes_enable(graph, graph->exec, probes, enabled);
    if (result == PH__R_OK) {
        probes->on = enabled;
        return PH_OK;
    }
    ph_status status = fail_switch(result, PH__NAME_GRAPH_NODE_SET_ENABLED, call);
    (void)ph__probes_enable(graph, graph->exec, probes, probes->on);
    ph__driver_clear_reason();
    return status;
}

ph_status ph_graph_breadcrumbs_enable(ph_graph *graph, bool enabled)
{
    static const char call[] = "ph_graph_breadcrumbs_enable";
    PH_TRY(ph__graph_check(graph, PH__CALL_BREADCRUMBS_ENABLE));
    PH_TRY(ph__locate_need_breadcrumbs(graph, call));
    return switch_nodes(graph, &graph->locate->breadcrumbs, enabled, call);
}

ph_status ph_finite_enable(ph_graph *graph, bool enabled)
{
    static const char call[] = "ph_finite_enable";
    PH_TRY(ph__graph_check(graph, PH__CALL_CHECKS_ENABLE));
    if (graph->locate == NULL || graph->locate->checks.nodes.count == 0)
        return ph_fail(PH_ERROR_STATE,
                       "%s: no check was captured; call ph_finite_check in the capture", call);
    return switch_nodes(graph, &graph->locate->checks, enabled, call);
}

/* ---- updates ---- */
/* The update has brought the template's arguments, and it may have switched the nodes on: as
 * they do nothing then, a failure harms nothing but the probes. */
static void restore_probes(ph_graph *graph, ph__probes *probes, const char *call)
{
    bool on = probes->on;
    if (probes->nodes.count == 0)
        return;
    probes->given = probes->on = false;
    int result = on ? give_arguments(graph, probes) : PH__R_OK;
    if (result == PH__R_OK)
        result = ph__probes_enable(graph, graph->exec, probes, on);
    probes->on = on && result == PH__R_OK;
    if (result == PH__R_OK)
        return;
    ph__driver_clear_reason();
    ph__log(PH_LOG_WARNING, "%s: %s of the graph are switched off: setting them again gave %d (%s)",
            call, probes->kernel == PH__PROBE_BREADCRUMB ? "breadcrumbs" : "checks", result,
            ph__result_name(result));
}

void ph__locate_updated(ph_graph *graph, const ph_record *from, const char *call)
{
    if (graph->locate == NULL)
        return;
    ph__probes_load(&graph->locate->checks, from);
    restore_probes(graph, &graph->locate->breadcrumbs, call);
    restore_probes(graph, &graph->locate->checks, call);
}
