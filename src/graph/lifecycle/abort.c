/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/abort.c: ending an open capture without a graph. */
#include "graph/lifecycle/abort.h"
#include "base/backtrace.h"
#include "device/capture/capture.h"
#include "graph/lifecycle/child.h"
#include "graph/lifecycle/clear.h"
#include "graph/object/graph.h"
#include "graph/object/kernels.h"
#include "memory/pool/recording.h"

void ph__graph_close_pool(ph_graph *graph)
{
    ph__pool_record_end(graph->own->pool, graph->capture.id);
    ph__graph_close_capture(graph);
}

void ph__graph_close_capture(ph_graph *graph)
{
    ph__graph_drop_lent(graph);
    if (graph->template)
        ph__graph_keep_late(graph);
    ph__capture_release_kernels(&graph->capture);
    graph->events = ph__capture_acquire_events(&graph->capture);
    ph__marks_release(graph->capture.marks);
    graph->capture.marks = NULL;
    graph->capture_open = false;
}

void ph__graph_drop_capture(ph_graph *graph)
{
    ph__drv_graph *none;
    ph_error saved;
    if (!graph->capture_open) { /* between two segments */
        ph__pool_record_end(graph->own->pool, 0);
        return;
    }
    ph__error_save(&saved);
    ph_ignore(ph__capture_end(&none, &graph->capture, true, "ph_graph_capture_abort"));
    ph__graph_close_pool(graph);
    ph__error_restore(&saved);
}

/* Whether the innermost function is running no more, as longjmp has left it: nobody on this
 * stack waits for it. */
static bool was_left(const ph_graph *graph)
{
    enum {
        FRAMES = 256
    };
    void *frames[FRAMES];
    if (graph->running == 0 || graph->running_thread != ph__thread_id())
        return false;
    int count = ph__backtrace(frames, FRAMES);
    bool found = count == 0 || count == FRAMES; /* the caller is not known, or above these frames */
    for (int i = 0; i < count; i++)
        found = found || frames[i] == graph->running_caller;
    return !found;
}

void ph__graph_forget_left(ph_graph *graph)
{
    if (!was_left(graph))
        return;
    graph->bodies -= graph->running;
    graph->running = 0;
}

void ph_graph_capture_abort(ph_graph *graph)
{
    if (graph == NULL || graph->busy)
        return;
    ph__graph_forget_left(graph);
    if (!graph->capture_open && graph->state != PH_GRAPH_CAPTURING)
        return;
    ph__graph_drop_capture(graph);
    ph__graph_clear(graph);
    graph->state = PH_GRAPH_NEW;
}
