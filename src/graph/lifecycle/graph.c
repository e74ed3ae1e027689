/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/graph.c: the graph object's life: create, destroy, reset. */
#include "graph/lifecycle/graph.h"
#include "base/alloc.h"
#include "base/ended.h"
#include "base/log.h"
#include "driver/callback.h"
#include "graph/lifecycle/abort.h"
#include "graph/lifecycle/clear.h"
#include "graph/lifecycle/hooks.h"
#include "graph/memory/born.h"
#include "graph/memory/owned.h"
#include "graph/object/graph.h"
#include "graph/slots/slots_set.h"

static uint64_t next_id(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

ph_status ph_graph_create(ph_graph **out, const ph_graph_options *options)
{
    static const char call[] = "ph_graph_create";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (options && !PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_graph_options");
    ph_graph *graph = ph__calloc(1, sizeof *graph);
    if (graph == NULL)
        return ph__fail_host_memory(call, "the graph");
    graph->keep = options && options->keep_graph;
    graph->defer = options && options->defer_upload;
    graph->id = next_id();
    graph->free_count = UINT64_MAX;
    *out = graph;
    return PH_OK;
}

ph_graph_state ph_graph_get_state(const ph_graph *graph)
{
    if (graph == NULL)
        return PH_GRAPH_NEW;
    return (unsigned)graph->state < PH__GRAPH_STATES ? graph->state : PH_GRAPH_FAILED;
}

/* ---- letting go ---- */
/* All that the capture brought goes; what remains is to hand the retained objects out. */
static ph__batch *let_go_of_capture(ph_graph *graph)
{
    if (graph->capture_open || graph->state == PH_GRAPH_CAPTURING)
        ph__graph_drop_capture(graph);
    if (graph->exec_id)
        ph_ignore(ph__hooks_run(graph, PH_HOOK_DESTROY, NULL, graph->exec_id));
    graph->exec_id = 0;
    if (graph->device)
        ph__graph_drop_held(graph);
    ph__batch *batch = ph__graph_detach_batch(graph);
    ph__graph_clear(graph);
    graph->state = PH_GRAPH_NEW;
    return batch;
}

ph_status ph_graph_reset(ph_graph *graph)
{
    PH_TRY(ph__graph_check(graph, PH__CALL_RESET));
    ph__graph_forget_left(graph);
    ph_error saved;
    ph__error_save(&saved);
    ph__batch *batch = let_go_of_capture(graph);
    ph__graph_leave(graph);
    ph__batch_run(batch);
    ph__error_restore(&saved);
    return PH_OK;
}

/* Inside one of its own callbacks the graph is still in use: then it goes when the call that
 * runs the callback is done. */
void ph_graph_destroy(ph_graph *graph)
{
    if (graph == NULL || (graph->device && graph->device->forked))
        return;
    if ((unsigned)graph->state >= PH__GRAPH_STATES) {
        ph__ended_report("ph_graph_destroy", "the graph");
        return;
    }
    if (graph->whole) {
        ph__log(PH_LOG_WARNING,
                "ph_graph_destroy: the graph is a segment of graph %llu, and is destroyed with it",
                (unsigned long long)graph->whole->id);
        return;
    }
    if (ph__driver_refuses_destroy()) { /* the call that runs the kernel goes on with the graph */
        ph__log(PH_LOG_WARNING, "ph_graph_destroy: %s; the graph is not destroyed",
                ph__driver_callback_words);
        return;
    }
    ph__graph_forget_left(graph);
    graph->doomed = true;
    if (graph->busy || graph->bodies)
        return;
    if (graph->state == PH_GRAPH_CAPTURING)
        ph__log(PH_LOG_WARNING,
                "ph_graph_destroy: the graph's capture was still open, and is dropped; was "
                "ph_graph_capture_end forgotten?");
    ph_error saved;
    ph__error_save(&saved);
    ph__batch *batch = let_go_of_capture(graph);
    ph__hooks_detach(&graph->hooks);
    *graph = (ph_graph){.state = (ph_graph_state)PH__GRAPH_GONE};
    ph__ended_put(graph);
    ph__batch_run(batch);
    ph__error_restore(&saved);
}

/* Fails as the call would, had the hook failed. */
static void fail_abandoned(ph_graph *graph)
{
    graph->in_end_hooks = false;
    ph_ignore(ph__graph_fail(
        graph,
        ph_fail(PH_ERROR_CALLER,
                "a hook of the graph did not return: an exception left it, or its thread ended")));
    ph__graph_clear(graph);
}

void ph__graph_abandon(ph_graph *graph, ph_graph_hook_point point)
{
    ph_error saved;
    ph__error_save(&saved);
    if (point == PH_HOOK_CAPTURE_START)
        ph_graph_capture_abort(graph);
    if (point == PH_HOOK_CAPTURE_END || point == PH_HOOK_INSTANTIATE)
        fail_abandoned(graph);
    ph__slots_drop_staged(graph);
    if (point == PH_HOOK_DESTROY) {
        graph->exec_id = 0; /* its hooks were run */
        if (!graph->doomed)
            ph_ignore(ph_graph_reset(graph));
    }
    ph__graph_leave(graph);
    ph__error_restore(&saved);
}

void ph__graph_leave(ph_graph *graph)
{
    if (graph->doomed && graph->busy == 0)
        ph_graph_destroy(graph);
}
