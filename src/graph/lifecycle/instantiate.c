/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/instantiate.c: making the executable of a template. */
#include "graph/lifecycle/instantiate.h"
#include "base/line.h"
#include "graph/change/changes.h"
#include "graph/change/edited.h"
#include "graph/inputs/brought.h"
#include "graph/inputs/inputs.h"
#include "graph/inputs/liveness.h"
#include "graph/lifecycle/clear.h"
#include "graph/lifecycle/graph.h"
#include "graph/lifecycle/hooks.h"
#include "graph/lifecycle/uploaded.h"
#include "graph/locate/probes_exec.h"
#include "graph/memory/cells_replay.h"
#include "graph/memory/owned.h"
#include "graph/object/deferred_record.h"
#include "graph/object/graph.h"
#include "graph/object/kernels.h"
#include "graph/object/segments.h"
#include "graph/slots/slots_life.h"
#include "memory/capture/allocation_log.h"

static uint64_t next_exec_id(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

/* NULL: none could be made. What the driver said of the failure stays. */
static const ph_record *record_to_blame(ph_graph *graph, const ph__edit *edit,
                                        const ph__drv_node *failed, const char *call)
{
    char reason[256];
    if (edit->template)
        return edit->record;
    if (failed && graph->record == NULL) {
        ph__line_format(reason, sizeof reason, "%s", ph__driver_reason());
        ph_ignore(ph__graph_need_record(graph, call));
        if (reason[0])
            ph__driver_set_reason("%s", reason);
        else
            ph__driver_clear_reason();
    }
    return graph->record;
}

static ph_status fail_instantiate(ph_graph *graph, const ph__edit *edit, int result,
                                  const ph__drv_node *failed, const char *call)
{
    const ph_record *record = record_to_blame(graph, edit, failed, call);
    size_t node = record ? ph__record_index_of(record, failed) : SIZE_MAX;
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the executable of the graph");
    if (node == SIZE_MAX)
        return ph__driver_fail(result, PH__NAME_GRAPH_INSTANTIATE,
                               "%s: the captured graph cannot be made executable", call);
    return ph__driver_fail(
        result, PH__NAME_GRAPH_INSTANTIATE,
        "%s: the captured graph cannot be made executable because of node %zu (%s)", call, node,
        record->nodes[node].info.name);
}

static ph_status fail_start(int result, const char *call)
{
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the executable of the graph");
    return ph__driver_fail(result, PH__NAME_GRAPH_NODE_SET_ENABLED,
                           "%s: switching off breadcrumbs and checks in the new executable", call);
}

static void forget_changes(ph_graph *graph)
{
    graph->changed = graph->hosts_changed = false;
    ph__layout_free(&graph->updated_layout);
    graph->updated_pool = NULL;
}

/* Forgets the changes to nodes of the last executable: kernels and inputs are the record's
 * again. */
static ph_status start_again(ph_graph *graph, const ph__edit *edit, const char *call)
{
    ph__inputs inputs = {0};
    if (edit->template) {
        forget_changes(graph);
        return PH_OK;
    }
    if (graph->liveness)
        PH_TRY(ph__inputs_of_graph(&inputs, graph, graph, call));
    ph_status status =
        graph->record ? ph__graph_acquire_kernels(graph, graph->record, call) : PH_OK;
    if (status == PH_OK) {
        ph__graph_set_inputs(graph, &inputs);
        graph->inputs_due = !graph->liveness;
        forget_changes(graph);
    } else {
        ph__inputs_free(&inputs, graph);
    }
    return status;
}

static ph_status make_executable(ph_graph *graph, ph__edit *edit, const char *call)
{
    const ph__driver *driver = graph->device->driver;
    ph__drv_exec *exec = NULL;
    ph__drv_node *failed = NULL;
    ph_capture_mode mode;
    ph__relaxed_begin(graph->device, &mode);
    int flags = PH__INSTANTIATE_AUTO_FREE_ON_LAUNCH | PH__INSTANTIATE_USE_NODE_PRIORITY;
    if (graph->defer)
        flags |= PH__INSTANTIATE_DEFER_UPLOAD;
    int result = driver->instantiate(&exec, edit->template ? edit->template : graph->template,
                                     flags, &failed);
    ph__relaxed_end(graph->device, mode);
    if (result != PH__R_OK)
        return fail_instantiate(graph, edit, result, failed, call);
    ph__edit_point(edit, graph);
    result = ph__locate_start(graph, exec);
    if (result != PH__R_OK) {
        ph_status status = fail_start(result, call);
        driver->exec_destroy(exec);
        return status;
    }
    if (graph->exec) {
        ph_status status = start_again(graph, edit, call);
        if (status != PH_OK) {
            driver->exec_destroy(exec);
            return status;
        }
        ph__upload_drop(graph);
        driver->exec_destroy(graph->exec);
        ph__brought_drop(graph);
        ph__changes_drop(graph);
    }
    graph->exec = exec;
    ph__edit_commit(edit, graph);
    graph->exec_id = next_exec_id();
    ph__cells_renew(graph);
    ph__slots_renew(graph, graph->record);
    ph__locate_renew(graph);
    return PH_OK;
}

ph_status ph__segments_ready(ph_graph *graph)
{
    graph->exec_id = next_exec_id();
    graph->state = PH_GRAPH_READY;
    ph_status status = ph__hooks_run(graph, PH_HOOK_INSTANTIATE, NULL, graph->exec_id);
    return status == PH_OK ? PH_OK : ph__graph_fail(graph, status);
}

/* A hook that fails leaves its segment FAILED, and the whole with it. */
static ph_status make_segments(ph_graph *graph, const char *call)
{
    for (size_t i = 0; i < graph->segments->list.count; i++) {
        ph_graph *segment = graph->segments->list.at[i].graph;
        ph_status status = ph__graph_make_exec(segment, call);
        if (status != PH_OK && segment->state == PH_GRAPH_FAILED)
            return ph__graph_fail(graph, status);
        if (status != PH_OK)
            return status;
    }
    return ph__segments_ready(graph);
}

ph_status ph__graph_make_exec_ahead(ph_graph *graph, const char *call)
{
    ph__edit edit = {0};
    PH_TRY(ph__rule_check(graph->device, PH__RULE_INSTANTIATE));
    PH_TRY(ph__edit_read(&edit, graph, call));
    ph_status made = make_executable(graph, &edit, call);
    if (made != PH_OK)
        ph__edit_abandon(&edit, graph);
    return made;
}

ph_status ph__graph_exec_ready(ph_graph *graph)
{
    graph->state = PH_GRAPH_READY;
    ph_status status = ph__hooks_run(graph, PH_HOOK_INSTANTIATE, NULL, graph->exec_id);
    return status == PH_OK ? PH_OK : ph__graph_fail(graph, status);
}

ph_status ph__graph_make_exec(ph_graph *graph, const char *call)
{
    if (graph->segments)
        return make_segments(graph, call);
    PH_TRY(ph__graph_make_exec_ahead(graph, call));
    return ph__graph_exec_ready(graph);
}

ph_status ph__graph_need_exec(ph_graph *graph, const char *call)
{
    if (graph->state != PH_GRAPH_ENDED)
        return PH_OK;
    ph_status status = ph__graph_make_exec(graph, call);
    if (graph->state == PH_GRAPH_FAILED)
        ph__graph_clear(graph);
    return status;
}

ph_status ph_graph_instantiate(ph_graph *graph)
{
    PH_TRY(ph__graph_check(graph, PH__CALL_INSTANTIATE));
    ph_status status = ph__graph_make_exec(graph, "ph_graph_instantiate");
    if (graph->state == PH_GRAPH_FAILED)
        ph__graph_clear(graph);
    ph__graph_leave(graph);
    return status;
}
