/* SPDX-License-Identifier: MIT */
/* graph/capture/lacks.c: what a captured graph may lack although its function succeeded: calls that
 * were refused while their status was dropped, and work on streams that are not in the capture. */
#include "graph/capture/lacks.h"
#include "base/line.h"
#include "base/log.h"
#include "base/status.h"
#include "base/sync.h"
#include "device/capture/outside.h"
#include "graph/object/graph.h"

/* Captures may be nested: the mark of the outer one comes back with the end of the inner one,
 * unless a call has failed. */
void ph__lacks_begin(ph_graph *graph)
{
    static _Atomic uint32_t last;
    do
        graph->record_mark = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    while (graph->record_mark == 0);
    graph->record_before = ph__error_mark(graph->record_mark);
}

static bool has_call_failed(const ph_graph *graph)
{
    if (graph->capture.owner_thread != ph__thread_id())
        return false;
    if (ph__error_marked() != graph->record_mark)
        return true;
    (void)ph__error_mark(graph->record_before);
    return false;
}

/* Strict captures fail, so that nobody replays the graph. */
static ph_status report_failed_call(const ph_graph *graph, const char *call)
{
    static const char what[] = "a call failed in it, and the graph may lack its work",
                      remedy[] = "return the status of such a call from the function (PH_TRY)";
    char detail[sizeof((ph_error *)0)->message];
    ph__line_format(detail, sizeof detail, "%s", ph_error_last()->message);
    if (graph->strict)
        return ph_fail(PH_ERROR_STATE, "%s: the capture is strict, and %s: %s; %s", call, what,
                       detail, remedy);
    ph__log(PH_LOG_WARNING, "%s: %s: %s; %s", call, what, detail, remedy);
    return PH_OK;
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

ph_status ph__lacks_check(ph_graph *graph, const char *call)
{
    if (has_call_failed(graph))
        PH_TRY(report_failed_call(graph, call));
    report_outside(&graph->capture, call);
    return PH_OK;
}
