/* SPDX-License-Identifier: MIT */
/* graph/capture/lacks.c: what a captured graph may lack although its function succeeded: calls that
 * were refused while their status was dropped, and work on streams that are not in the capture. */
#include "graph/capture/lacks.h"
#include "base/alloc.h"
#include "base/line.h"
#include "base/log.h"
#include "base/status.h"
#include "base/sync.h"
#include "device/capture/outside.h"
#include "graph/object/graph.h"
#include <string.h>

/* Captures may be nested: the mark of the outer one comes back with the end of the inner one,
 * unless a call has failed. */
void ph__lacks_begin(ph_graph *graph)
{
    static _Atomic uint32_t last;
    do
        graph->record_mark = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    while (graph->record_mark == 0);
    graph->record_before = ph__error_mark(graph->record_mark);
    if (ph__error_marked() != graph->record_mark) /* the record has no room for it */
        graph->record_mark = 0;
}

static bool has_call_failed(const ph_graph *graph)
{
    const uint32_t mark = ph__error_marked();
    if (graph->record_mark == 0 || graph->capture.owner_thread != ph__thread_id())
        return false;
    if (mark == graph->record_mark)
        (void)ph__error_mark(graph->record_before);
    return mark == 0; /* another one is of a capture that began later, and tells nothing */
}

/* Of another thread, or without room for a mark, nobody knows. */
static bool has_no_call_failed(const ph_graph *graph)
{
    return graph->record_mark != 0 && graph->capture.owner_thread == ph__thread_id() &&
           ph__error_marked() == graph->record_mark;
}

/* A warning, also where the capture is strict: a failure may have been the answer to a question.
 * The graph keeps it for ph_graph_verify. */
static void report_failed_call(ph_graph *graph, const char *call)
{
    char detail[sizeof((ph_error *)0)->message];
    ph__line_format(detail, sizeof detail, "%s", ph_error_last()->message);
    graph->call_failed = true;
    ph__free(graph->failed_call);
    graph->failed_call = ph__strdup(detail);
    ph__log(PH_LOG_WARNING,
            "%s: a call failed in it, and the graph may lack its work; return the status of such a "
            "call from the function (PH_TRY), or do what its message says; the last one's is: %s",
            call, detail);
}

/* A warning, also where the capture is strict: the work has run, and a caller that takes a failure
 * for a reason to run the function as it is would repeat it. */
static void report_outside(ph__capture *capture, const char *call)
{
    char detail[160];
    if (ph__outside_describe(detail, sizeof detail, capture))
        ph__log(PH_LOG_WARNING,
                "%s: work on a stream that is not in it ran at once, and is not in the graph: %s; "
                "wrong stream or device? submit to the capture's stream, or to one that has joined "
                "it (ph_stream_wait_stream), or before the capture",
                call, detail);
}

static void fail_body(ph_status body, const char *call)
{
    const char *name = ph_status_name(body);
    if (strncmp(name, "PH_", 3) != 0)
        (void)ph__fail_given(body, "%s: body", call);
    else
        (void)ph_fail(body,
                      "%s: body failed with %s, and no call failed in it; ph_fail gives such a "
                      "status a message",
                      call, name);
}

void ph__lacks_check(ph_graph *graph, ph_status body, const char *call)
{
    if (body != PH_OK) {
        if (has_no_call_failed(graph))
            fail_body(body, call);
        return;
    }
    if (has_call_failed(graph))
        report_failed_call(graph, call);
    report_outside(&graph->capture, call);
}

ph_status ph__lacks_end(const ph_graph *graph, const char *call)
{
    if (graph->state == PH_GRAPH_CAPTURING || graph->state == PH_GRAPH_FAILED)
        return PH_OK;
    return ph_fail(PH_ERROR_STATE,
                   "%s: the capture was ended by its own function (ph_graph_capture_end, "
                   "ph_graph_capture_abort or ph_graph_reset); leave that to the call",
                   call);
}
