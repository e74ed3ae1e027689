/* SPDX-License-Identifier: MIT */
/* graph/capture/capture.c: capturing into a graph, as a transaction: begin, end, and the
 * form that calls a function. */
#include "graph/capture/capture.h"
#include "base/log.h"
#include "base/unwind.h"
#include "device/capture/capture.h"
#include "graph/capture/complete.h"
#include "graph/capture/debug.h"
#include "graph/capture/lacks.h"
#include "graph/capture/options.h"
#include "graph/capture/planned.h"
#include "graph/capture/segment.h"
#include "graph/inputs/copies.h"
#include "graph/inputs/liveness.h"
#include "graph/lifecycle/abort.h"
#include "graph/lifecycle/child.h"
#include "graph/lifecycle/clear.h"
#include "graph/lifecycle/graph.h"
#include "graph/lifecycle/hooks.h"
#include "graph/locate/breadcrumbs.h"
#include "graph/locate/probes.h"
#include "graph/memory/cells.h"
#include "graph/memory/cells_replay.h"
#include "graph/memory/epochs.h"
#include "graph/object/annotations.h"
#include "graph/object/graph.h"
#include "memory/capture/allocation_log.h"
#include "memory/capture/ranges.h"
#include "memory/pool/pool.h"
#include "memory/pool/recording.h"
#include "record/words.h"

/* ---- begin ---- */
/* A stream that is capturing already is refused first: synchronizing would kill a capture that
 * this library did not begin. */
static ph_status prepare_device(const ph_stream *stream, const char *call)
{
    PH_TRY(ph__capture_check_free(stream, call));
    ph_status status = ph_device_synchronize(stream->device);
    if (status == PH_OK)
        status = ph_memory_trim(stream->device);
    if (status != PH_OK)
        ph__error_prefix("%s: preparing the device", call);
    return status;
}

/* The pool is recorded to before the driver's capture begins: else another thread's free could
 * slip work into the capture. */
static ph_status open_pool(ph_graph *graph, ph_pool *pool, const char *call)
{
    ph_pool *made = NULL;
    if (pool == NULL)
        PH_TRY(ph__pool_create_private(&made, graph->device));
    ph_pool *used = pool ? pool : made;
    ph_status status = ph__pool_record_begin(used, graph->device, call);
    ph_pool_release(made); /* from here on the recording holds it */
    if (status != PH_OK)
        return status;
    status = ph__graph_add_pool(&graph->own, graph, used, call);
    if (status != PH_OK) {
        ph__pool_record_end(used, 0);
        ph__pool_graph_release(used);
    }
    return status;
}

/* The user destroys the stream under the capture: it ends here, and the graph says why. */
static void on_lost(ph__capture *capture)
{
    ph_graph *graph = capture->owner;
    ph_error saved;
    ph__error_save(&saved);
    ph__graph_drop_capture(graph);
    ph__graph_fail(
        graph, ph__fail_native(
                   PH_ERROR_CAPTURE, PH__R_CAPTURE_INVALIDATED, PH__NAME_STREAM_DESTROY,
                   "ph_stream_destroy: the stream of an open capture was destroyed, which aborts "
                   "the capture; end it first"));
    ph__graph_clear(graph);
    ph__error_restore(&saved);
}

static void on_begun(ph__capture *capture)
{
    const ph_graph *graph = capture->owner;
    ph__pool_record_publish(graph->own->pool, capture->id);
}

static ph_status open_capture(ph_graph *graph, ph_stream *stream, const ph_capture_options *options,
                              const char *call)
{
    graph->device = ph_device_retain(stream->device);
    graph->stream = ph__stream_retain(stream);
    graph->capture_stream = stream->id;
    graph->empty = false;
    ph__graph_set_checks(graph, options);
    graph->capture.owner = graph;
    graph->capture.begun = on_begun;
    graph->capture.lost = on_lost;
    graph->capture.scope = options->breadcrumbs ? ph__locate_scope : NULL;
    graph->breadcrumbs = options->breadcrumbs;
    graph->capture.annotated = options->enable_annotations;
    graph->capture.checks = graph->liveness;
    PH_TRY(open_pool(graph, options->pool, call));
    ph_status status = ph__capture_begin(&graph->capture, stream, options->mode, call);
    if (status != PH_OK)
        ph__pool_record_end(graph->own->pool, graph->capture.id);
    return status;
}

static ph_status begin_prepared(ph_graph *graph, ph_stream *stream,
                                const ph_capture_options *options, const char *call)
{
    ph_status status = open_capture(graph, stream, options, call);
    if (status != PH_OK) {
        ph__graph_clear(graph);
        return status;
    }
    graph->capture_open = true;
    graph->state = PH_GRAPH_CAPTURING;
    status = ph__locate_begin(graph, call);
    if (status == PH_OK)
        status = ph__hooks_run(graph, PH_HOOK_CAPTURE_START, stream, 0);
    ph__lacks_begin(graph);
    if (status != PH_OK && graph->state == PH_GRAPH_CAPTURING)
        ph_graph_capture_abort(graph);
    return status;
}

static void release_stream(void *stream)
{
    ph__stream_release(stream);
}

static ph_status begin_capture(ph_graph *graph, ph_stream *stream,
                               const ph_capture_options *options, ph__graph_call which)
{
    const char *call = ph__graph_calls[which].name;
    static const ph_capture_options defaults;
    ph_capture_options room;
    PH_TRY(ph__graph_check(graph, which));
    PH_TRY(ph__stream_check(stream, call));
    options = options ? options : &defaults;
    PH_TRY(ph__graph_check_options(options, call));
    if (options->scopes)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: scopes are for ph_graph_import_cuda; mark captured work with "
                       "ph_annotation_push",
                       call);
    PH_TRY(ph__debug_options(&options, &room, options, false, call));
    if (stream->is_default)
        return ph__fail_native(
            PH_ERROR_DEFAULT_STREAM, PH__R_CAPTURE_UNSUPPORTED, PH__NAME_STREAM_BEGIN_CAPTURE,
            "%s: captures must run on a stream other than the legacy default stream; make one with "
            "ph_stream_create (replaying on it is fine)",
            call);
    if (options->prepare)
        PH_TRY(prepare_device(stream, call));
    ph__stream_retain(stream); /* hooks may destroy it */
    PH__UNWIND unwind = {release_stream, stream};
    ph_status status = ph__hooks_run(graph, PH_HOOK_CAPTURE_PREPARE, stream, 0);
    if (status == PH_OK)
        status = ph__stream_check(stream, call);
    if (status == PH_OK)
        status = begin_prepared(graph, stream, options, call);
    unwind.undo = NULL;
    ph__stream_release(stream);
    ph__graph_leave(graph);
    return status;
}

ph_status ph_graph_capture_begin(ph_graph *graph, ph_stream *stream,
                                 const ph_capture_options *options)
{
    if (options && options->plan)
        return ph__fail_plan("ph_graph_capture_begin",
                             "a plan needs a function that runs twice; use ph_graph_capture");
    return begin_capture(graph, stream, options, PH__CALL_CAPTURE_BEGIN);
}

/* ---- end ---- */
ph_status ph__graph_fail_capture(ph_graph *graph, ph_status status)
{
    ph__graph_fail(graph, status);
    ph__graph_clear(graph);
    return status;
}

/* The writer has the ranges before the inputs are looked for: memory of the capture is none. */
ph_status ph__graph_read_open(ph_graph *graph, const char *call)
{
    ph__ranges ranges = {0}, copy = {0}, nested = {0};
    ph__pool_acquire_layout(&graph->layout, graph->own->pool, graph->capture.id);
    PH_TRY(ph__pool_record_ranges(&ranges, graph->own->pool, graph->capture.id));
    ph_status status = ph__graph_acquire_lent(&nested, graph, &ranges, call);
    if (status == PH_OK && !ph__ranges_copy(&copy, &ranges))
        status = ph__fail_host_memory(call, "the ranges of the capture");
    if (status == PH_OK && !ph__writer_reserve(graph->own, 1))
        status = ph__fail_host_memory(call, "the pools of the graph");
    if (status == PH_OK && !ph__cells_add_ranges(&ranges, graph))
        status = ph__fail_host_memory(call, "the ranges of the capture");
    if (status == PH_OK) {
        ph__writer_add(graph->own, &copy);
        graph->marks = ph__marks_retain(graph->capture.marks);
        status = ph__graph_read_captured(graph, &ranges, &nested, call);
    }
    ph__ranges_free(&copy);
    ph__ranges_free(&ranges);
    ph__ranges_free(&nested);
    return status;
}

ph_status ph__graph_report_empty(ph_graph *graph, const char *call)
{
    static const char why[] = "the graph is empty: nothing was submitted to the capturing stream; "
                              "wrong stream or device?";
    graph->empty = true;
    if (graph->strict)
        return ph_fail(PH_ERROR_STATE, "%s: the capture is strict, and %s", call, why);
    ph__log(PH_LOG_WARNING, "%s: %s", call, why);
    return PH_OK;
}

/* From the driver's graph to what the user sees. */
static ph_status complete_capture(ph_graph *graph, const char *call)
{
    bool empty = ph__graph_is_empty(graph);
    ph__graph_list_annotations(graph);
    ph_status status = PH_OK;
    if (empty && graph->strict)
        status = ph__graph_report_empty(graph, call);
    if (status == PH_OK)
        status = ph__graph_complete(graph, true, call);
    if (status != PH_OK)
        return ph__graph_fail_capture(graph, status);
    if (empty)
        PH_TRY(ph__graph_report_empty(graph, call));
    ph__stream_release(graph->stream);
    graph->stream = NULL;
    return PH_OK;
}

static ph_status end_body_failed(ph_graph *graph, ph_status body)
{
    if (graph == NULL || graph->busy || !graph->capture_open)
        return body;
    ph_error cause;
    ph__error_save(&cause);
    ph__graph_drop_capture(graph);
    if (graph->state == PH_GRAPH_CAPTURING)
        ph__graph_fail(graph, body);
    ph__graph_clear(graph);
    ph__error_restore(&cause);
    return body;
}

/* After an end on the wrong thread: the thread that began lets it end. */
static void complete_misended(ph_graph *graph)
{
    if (graph->capture.owner_thread != ph__thread_id())
        return;
    ph__graph_drop_capture(graph);
    ph__graph_clear(graph);
}

static ph_status end_capture(ph_graph *graph, ph_status body, const char *call)
{
    bool open = graph && graph->state == PH_GRAPH_CAPTURING && graph->capture_open &&
                !graph->device->forked;
    if (open)
        ph__lacks_check(graph, body, call);
    if (body != PH_OK)
        return end_body_failed(graph, body);
    if (graph && graph->state == PH_GRAPH_FAILED && graph->capture_open && !graph->busy)
        complete_misended(graph);
    PH_TRY(ph__graph_check(graph, PH__CALL_CAPTURE_END));
    if (graph->segments) {
        ph_status ended = ph__segments_end_capture(graph, call);
        ph__graph_leave(graph);
        return ended;
    }
    ph__cells_join(graph);
    ph__locate_join(graph);
    ph_status status = ph__capture_end(&graph->template, &graph->capture, false, call);
    if (status != PH_OK && graph->capture.stream) /* the wrong thread: still open */
        return ph__graph_fail(graph, status);
    if (status == PH_OK)
        status = ph__graph_read_open(graph, call);
    ph__graph_close_pool(graph);
    if (status == PH_OK)
        ph__cells_captured(graph, call);
    status =
        status == PH_OK ? complete_capture(graph, call) : ph__graph_fail_capture(graph, status);
    ph__graph_leave(graph);
    return status;
}

ph_status ph_graph_capture_end(ph_graph *graph, ph_status body)
{
    return end_capture(graph, body, "ph_graph_capture_end");
}

static void end_running(ph_graph *graph)
{
    if (graph->running == 0) /* forgotten: it was away from its stack */
        return;
    graph->bodies--;
    graph->running--;
}

typedef struct running {
    ph_graph *graph;
    size_t depth; /* of scopes, before it */
} running;

/* An exception has left the function: as if it had never been called. */
static void abandon_capture(void *what)
{
    const running *r = what;
    ph_error saved;
    ph__error_save(&saved);
    end_running(r->graph);
    ph_annotation_unwind(r->depth);
    ph_graph_capture_abort(r->graph);
    ph__graph_leave(r->graph);
    ph__error_restore(&saved);
}

/* Not inline: its caller's address tells whether it runs. */
__attribute__((noinline)) static ph_status
run_body(ph_graph *graph, size_t depth, ph_stream *stream, ph_capture_fn body, void *user)
{
    running r = {graph, depth};
    graph->bodies++;
    graph->running++;
    graph->running_thread = ph__thread_id();
    graph->running_caller = __builtin_return_address(0);
    PH__UNWIND unwind = {abandon_capture, &r};
    ph_status status = body(stream, user);
    unwind.undo = NULL;
    end_running(graph);
    return status;
}

/* The end of a capture of which nothing is kept. */
static void drop_run(ph_graph *graph, size_t depth)
{
    ph_annotation_unwind(depth);
    ph_graph_capture_abort(graph);
    ph__graph_leave(graph);
}

ph_status ph__graph_capture_run(ph_graph *graph, ph_stream *stream,
                                const ph_capture_options *options, ph_capture_fn body, void *user,
                                const bool *drop)
{
    static const char call[] = "ph_graph_capture";
    PH_TRY(begin_capture(graph, stream, options, PH__CALL_CAPTURE));
    size_t depth = ph_annotation_depth();
    ph_status status = run_body(graph, depth, stream, body, user);
    size_t after = ph_annotation_depth();
    if (!graph->doomed) {
        if (status == PH_OK && *drop && graph->state == PH_GRAPH_CAPTURING) {
            drop_run(graph, depth);
            return PH_OK;
        }
        if (status == PH_OK)
            status = ph__lacks_end(graph, call);
        if (status == PH_OK && graph->strict && after > depth)
            status = ph__fail_scopes_left(after - depth, call);
        status = end_capture(graph, status, call);
        if (status == PH_OK && after > depth && ph_annotation_depth() == after)
            ph__scopes_left(after - depth, call);
        return status;
    }
    if (status == PH_OK)
        status = ph_fail(PH_ERROR_STATE, "%s: the graph was destroyed by its own capture function",
                         call);
    status = end_body_failed(graph, status);
    ph__graph_leave(graph);
    return status;
}

ph_status ph_graph_capture(ph_graph *graph, ph_stream *stream, const ph_capture_options *options,
                           ph_capture_fn body, void *user)
{
    static const char call[] = "ph_graph_capture";
    static const bool keep = false;
    PH_TRY(ph__graph_check(graph, PH__CALL_CAPTURE));
    if (body == NULL)
        return ph__fail_null(call, "body");
    if (options && options->plan)
        return ph__graph_capture_planned(graph, stream, options, body, user);
    return ph__graph_capture_run(graph, stream, options, body, user, &keep);
}
