/* SPDX-License-Identifier: MIT */
/* graph/capture/import.c: taking a graph over that was built elsewhere, and looking at one that
 * stays there. */
#include "device/annotate/imported.h"
#include "graph/capture/complete.h"
#include "graph/capture/debug.h"
#include "graph/capture/options.h"
#include "graph/capture/planned.h"
#include "graph/inputs/copies.h"
#include "graph/inputs/freed.h"
#include "graph/inputs/liveness.h"
#include "graph/lifecycle/clear.h"
#include "graph/lifecycle/graph.h"
#include "graph/lifecycle/hooks.h"
#include "graph/memory/epochs.h"
#include "graph/object/annotations.h"
#include "graph/object/graph.h"
#include "memory/pool/pool.h"
#include "record/annotations.h"
#include "record/words.h"
#include <phonograph/cuda.h>

static ph_status fail_import(int result, const ph_device *device, const char *call)
{
    const char *reason = ph__driver_reason();
    const char *colon = reason[0] ? ": " : "";
    switch (result) {
    case PH__R_NOT_SUPPORTED:
        return ph__fail_native(PH_ERROR_UNSUPPORTED, result, PH__NAME_GRAPH_GET_NODES,
                               "%s: device %s cannot take the graph%s%s", call, device->name, colon,
                               reason);
    case PH__R_INVALID_HANDLE:
    case PH__R_INVALID_VALUE:
        return ph__fail_native(PH_ERROR_ARGUMENT, result, PH__NAME_GRAPH_GET_NODES,
                               "%s: this is no graph that could be read%s%s", call, colon, reason);
    case PH__R_OUT_OF_MEMORY:
        return ph__fail_host_memory(call, "the graph");
    default:
        return ph__driver_fail(result, PH__NAME_GRAPH_GET_NODES, "%s: the graph could not be read",
                               call);
    }
}

/* Its replays are ordered with those from the same pool; what of the pool they write nobody has
 * seen. */
static ph_status hold_imported_pool(ph_graph *graph, ph_pool *pool, const char *call)
{
    ph_pool *made = NULL;
    if (pool)
        PH_TRY(ph__pool_check(pool, call));
    if (pool && ph__pool_device(pool) != graph->device)
        return ph__fail_devices(call, "the pool", ph__pool_device(pool), "the graph",
                                graph->device);
    if (pool == NULL)
        PH_TRY(ph__pool_create_private(&made, graph->device));
    ph_pool *used = pool ? pool : made;
    ph__pool_graph_retain(used);
    ph_pool_release(made);
    ph_status status = ph__graph_add_pool(&graph->own, graph, used, call);
    if (status != PH_OK)
        ph__pool_graph_release(used);
    else
        ph__writer_add_anywhere(graph->own);
    return status;
}

static ph_status annotate_imported(ph_graph *graph, const ph_import_scopes *scopes,
                                   const char *call)
{
    PH_TRY(ph__marks_import(&graph->marks, scopes, ph__graph_node_count(graph), call));
    return ph__record_annotate(graph->record, graph->marks, NULL, call);
}

static ph_status read_native(ph_graph *graph, void *native, const ph_capture_options *options,
                             const char *call)
{
    const ph__own_memory none = {0};
    PH_TRY(hold_imported_pool(graph, options->pool, call));
    int result =
        graph->device->driver->graph_import(&graph->template, graph->device->handle, native);
    if (result != PH__R_OK)
        return fail_import(result, graph->device, call);
    PH_TRY(ph__graph_read(graph, &none, call));
    PH_TRY(annotate_imported(graph, options->scopes, call));
    PH_TRY(ph__graph_acquire_copies(graph, call));
    return ph__graph_report_freed(graph, call);
}

/* The native graph goes back to the caller, and the graph is as it was. */
static void undo_import(ph_graph *graph)
{
    const ph__driver *driver = graph->device->driver;
    ph_error cause;
    ph__error_save(&cause);
    if (graph->exec_id)
        ph_ignore(ph__hooks_run(graph, PH_HOOK_DESTROY, NULL, graph->exec_id));
    graph->exec_id = 0;
    driver->exec_destroy(graph->exec);
    graph->exec = NULL;
    if (graph->template)
        driver->graph_disown(graph->template);
    graph->template = NULL;
    ph__graph_clear(graph);
    graph->state = PH_GRAPH_NEW;
    ph__error_restore(&cause);
}

ph_status ph_graph_import_cuda(ph_graph *graph, ph_device *device, struct CUgraph_st *cuda_graph,
                               const ph_capture_options *options)
{
    static const char call[] = "ph_graph_import_cuda";
    static const ph_capture_options defaults;
    ph_capture_options room;
    PH_TRY(ph__graph_check(graph, PH__CALL_IMPORT_CUDA));
    if (device == NULL)
        return ph__fail_null(call, "device");
    if (cuda_graph == NULL)
        return ph__fail_null(call, "cuda_graph");
    options = options ? options : &defaults;
    PH_TRY(ph__graph_check_options(options, call));
    if (options->plan)
        return ph__fail_plan(call, "no function made the graph that could run again");
    PH_TRY(ph__debug_options(&options, &room, options, true, call));
    if (options->enable_annotations)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: annotations come from the scopes that nodes are captured in, and this "
                       "graph was made elsewhere; "
                       "leave enable_annotations off, and give what is known as scopes",
                       call);
    if (options->allow_breaks)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: breaks are made in captures, and this graph was made elsewhere; leave "
                       "allow_breaks off",
                       call);
    graph->device = ph_device_retain(device);
    ph__graph_set_checks(graph, options);
    ph_status status = read_native(graph, cuda_graph, options, call);
    if (status == PH_OK)
        status = ph__graph_complete(graph, false, call);
    if (status == PH_OK)
        ph__graph_list_annotations(graph);
    else
        undo_import(graph);
    ph__graph_leave(graph);
    return status;
}

/* ---- views ---- the state is that of any graph with an executable; the table refuses what the
 * owner alone may do. */
static ph_status view_exec(ph_graph *graph, void *exec, const char *call)
{
    int result = graph->device->driver->exec_view(&graph->exec, graph->template, exec);
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the executable of the graph");
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_GRAPH_GET_NODES, "%s: the executable", call);
    graph->state = PH_GRAPH_READY;
    graph->viewed = true;
    return PH_OK;
}

ph_status ph_graph_view_cuda(ph_graph *graph, ph_device *device, struct CUgraph_st *cuda_graph,
                             struct CUgraphExec_st *exec)
{
    static const char call[] = "ph_graph_view_cuda";
    static const ph_capture_options defaults;
    PH_TRY(ph__graph_check(graph, PH__CALL_VIEW_CUDA));
    if (device == NULL)
        return ph__fail_null(call, "device");
    if (cuda_graph == NULL)
        return ph__fail_null(call, "cuda_graph");
    if (exec == NULL)
        return ph__fail_null(call, "exec");
    graph->device = ph_device_retain(device);
    ph__graph_set_checks(graph, &defaults);
    ph_status status = read_native(graph, cuda_graph, &defaults, call);
    if (status == PH_OK)
        status = view_exec(graph, exec, call);
    if (status != PH_OK)
        undo_import(graph);
    ph__graph_leave(graph);
    return status;
}
