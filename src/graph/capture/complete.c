/* SPDX-License-Identifier: MIT */
/* graph/capture/complete.c: from the driver's graph to what the user sees. */
#include "graph/capture/complete.h"
#include "base/debug.h"
#include "device/wrap_cuda.h"
#include "graph/capture/debug.h"
#include "graph/inputs/copies.h"
#include "graph/inputs/liveness.h"
#include "graph/lifecycle/hooks.h"
#include "graph/lifecycle/instantiate.h"
#include "graph/locate/probes.h"
#include "graph/memory/born.h"
#include "graph/memory/cells.h"
#include "graph/memory/owned.h"
#include "graph/object/deferred_record.h"
#include "graph/object/graph.h"
#include "graph/object/kernels.h"
#include "record/origin.h"
#include "record/words.h"

ph_status ph__graph_read(ph_graph *graph, const ph__own_memory *own, const char *call)
{
    PH_TRY(ph__record_build(&graph->record, graph->device, graph->template, own, call));
    ph__record_note_origin(graph->record, graph->device, graph->id);
    PH_TRY(ph__graph_acquire_kernels(graph, graph->record, call));
    return ph__graph_acquire_inputs(graph, call);
}

/* ---- captures ---- what safety needs of the nodes is read now. The whole record is made now where
 * something of the capture asks for it, and else when the user does. */
static bool asks_for_record(const ph_graph *graph)
{
    return graph->liveness || graph->read_at_end || graph->locate || graph->cells ||
           (graph->marks && !graph->device->driver->graph_is_own(graph->template)) ||
           ph__debug_switches()->record || ph__adopt_has_kernels();
}

/* The probes and cells of the capture are in the record. */
static ph_status read_marked(ph_graph *graph, const char *call)
{
    const ph__own_memory own = {.capture = &graph->deferred_record->capture,
                                .nested = &graph->deferred_record->nested};
    PH_TRY(ph__graph_need_record(graph, call));
    ph__cells_record(graph, &own);
    ph__locate_record(graph);
    return PH_OK;
}

ph_status ph__graph_read_captured(ph_graph *graph, ph__ranges *capture, ph__ranges *nested,
                                  const char *call)
{
    bool lasting, odd = false;
    graph->deferred_record = ph__deferred_record_create(&lasting, graph, capture, nested);
    if (graph->deferred_record == NULL || !ph__graph_keep_captured(graph))
        return ph__fail_host_memory(call, "the captured graph");
    if (!lasting || asks_for_record(graph))
        PH_TRY(read_marked(graph, call));
    PH_TRY(ph__graph_hold_born(graph, call));
    PH_TRY(ph__graph_acquire_inputs(graph, call));
    if (graph->record == NULL)
        PH_TRY(ph__graph_scan_copies(&odd, graph, call));
    if (odd)
        PH_TRY(ph__graph_need_record(graph, call));
    return graph->record ? ph__graph_acquire_copies(graph, call) : PH_OK;
}

size_t ph__graph_node_count(const ph_graph *graph)
{
    size_t count = 0;
    return graph->device->driver->graph_count(&count, graph->template) == PH__R_OK ? count : 0;
}

bool ph__graph_is_empty(const ph_graph *graph)
{
    size_t count = 0, breadcrumbs = graph->breadcrumbs ? 1 : 0; /* the one before all others */
    return graph->device->driver->graph_count(&count, graph->template) == PH__R_OK &&
           count == breadcrumbs;
}

static ph_status lower_template(ph_graph *graph, const char *call)
{
    int result = graph->device->driver->graph_lower(graph->template);
    if (result == PH__R_OK)
        return PH_OK;
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the captured graph");
    return ph__driver_fail(result, PH__NAME_GRAPH_ADD_KERNEL_NODE,
                           "%s: making small memsets of the captured graph kernels", call);
}

ph_status ph__graph_complete(ph_graph *graph, bool captured, const char *call)
{
    graph->state = PH_GRAPH_ENDED;
    ph__debug_record(graph, call);
    graph->in_end_hooks = true;
    ph_status status = ph__hooks_run(graph, PH_HOOK_CAPTURE_END, graph->stream, 0);
    graph->in_end_hooks = false;
    if (status != PH_OK || graph->keep)
        return status;
    if (captured)
        PH_TRY(lower_template(graph, call));
    return ph__graph_make_exec(graph, call);
}
