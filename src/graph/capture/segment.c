/* SPDX-License-Identifier: MIT */
/* graph/capture/segment.c: breaks in captures. What the open capture has goes over to a graph of
 * its own, the segment; then the same graph begins to capture again. The pool records all the
 * while, so that what it gave to one segment is the graph's own memory in the next. */
#include "graph/capture/segment.h"
#include "base/alloc.h"
#include "base/unwind.h"
#include "device/capture/capture.h"
#include "device/capture/forks.h"
#include "graph/capture/capture.h"
#include "graph/capture/complete.h"
#include "graph/capture/debug.h"
#include "graph/lifecycle/abort.h"
#include "graph/lifecycle/clear.h"
#include "graph/lifecycle/graph.h"
#include "graph/lifecycle/hooks.h"
#include "graph/lifecycle/instantiate.h"
#include "graph/lifecycle/segments.h"
#include "graph/locate/probes.h"
#include "graph/memory/born.h"
#include "graph/memory/cells.h"
#include "graph/memory/cells_replay.h"
#include "graph/memory/epochs.h"
#include "graph/object/annotations.h"
#include "memory/capture/ranges.h"
#include "memory/pool/pool.h"
#include "memory/pool/recording.h"

/* ---- one segment ---- */
/* With room for it in the list. */
static ph_status create_segment(ph_graph **out, ph_graph *graph, const char *call)
{
    const ph_graph_options options = {.keep_graph = graph->keep, .defer_upload = graph->defer};
    if (graph->segments == NULL)
        graph->segments = ph__calloc(1, sizeof *graph->segments);
    if (graph->segments == NULL || !ph__vec_reserve(&graph->segments->list, 1))
        return ph__fail_host_memory(call, "the segments of the graph");
    graph->segments->destroy = ph_graph_destroy;
    PH_TRY(ph_graph_create(out, &options));
    (*out)->whole = graph;
    return PH_OK;
}

/* The segment shares the pools, that of the capture included. */
static ph_status share_pools(ph_graph *segment, const ph_graph *graph, const char *call)
{
    for (size_t i = 0; i < graph->pools.count; i++) {
        ph__writer *writer, *of_graph = graph->pools.at[i];
        ph__pool_graph_retain(of_graph->pool);
        ph_status status = ph__graph_add_pool(&writer, segment, of_graph->pool, call);
        if (status != PH_OK) {
            ph__pool_graph_release(of_graph->pool);
            return status;
        }
        if (of_graph == graph->own)
            segment->own = writer;
    }
    return PH_OK;
}

/* The capture has ended at the driver, and the segment has what it left. */
static void move_capture(ph_graph *segment, ph_graph *graph)
{
    segment->device = ph_device_retain(graph->device);
    segment->stream = ph__stream_retain(graph->stream);
    segment->capture_stream = graph->capture_stream;
    segment->liveness = graph->liveness;
    segment->foreign_every = graph->foreign_every;
    segment->strict = graph->strict;
    segment->read_at_end = graph->read_at_end;
    segment->breadcrumbs = graph->breadcrumbs;
    segment->template = graph->template;
    segment->cells = graph->cells;
    segment->locate = graph->locate;
    segment->lent = graph->lent;
    segment->declared = graph->declared;
    segment->held = graph->held;
    graph->template = NULL;
    graph->cells = NULL;
    graph->locate = NULL;
    graph->lent = NULL;
    ph__vec_free(&graph->nested); /* nodes of the segment alone */
    graph->declared = (ph__declarations){0};
    graph->held = (ph__held){0};
    ph__capture_move(&segment->capture, &graph->capture);
    graph->capture_open = false;
    segment->capture_open = true;
}

/* All that the captures were given, for the questions about the whole. */
static ph_status keep_ranges(ph_graph *graph, uint64_t capture_id, const char *call)
{
    ph__ranges all;
    PH_TRY(ph__pool_record_ranges(&all, graph->own->pool, capture_id));
    ph_status status = ph__writer_reserve(graph->own, 1)
                           ? PH_OK
                           : ph__fail_host_memory(call, "the pools of the graph");
    if (status == PH_OK)
        ph__writer_add(graph->own, &all);
    ph__ranges_free(&all);
    return status;
}

/* Until its capture is closed, it is no graph that anything else could be asked of. */
static ph_status read_segment(ph_graph *segment, ph_graph *graph, bool last, const char *call)
{
    uint64_t id = segment->capture.id;
    ph_status status = share_pools(segment, graph, call);
    if (status == PH_OK)
        status = ph__graph_read_open(segment, call);
    if (status == PH_OK && last)
        status = keep_ranges(graph, id, call);
    ph__graph_close_capture(segment);
    ph__pool_record_pause(graph->own->pool, id);
    if (status != PH_OK)
        return status;
    ph__cells_captured(segment, call);
    ph__graph_list_annotations(segment);
    status = ph__graph_complete(segment, true, call);
    ph__stream_release(segment->stream);
    segment->stream = NULL;
    return status;
}

static ph_status fail_graph(ph_graph *graph, ph_status status)
{
    ph__pool_record_end(graph->own->pool, 0);
    return ph__graph_fail_capture(graph, status);
}

/* Ends the open capture; fn NULL: for good. After a failure the graph is FAILED. */
static ph_status cut_segment(ph_graph *graph, ph_break_fn fn, void *user, const char *call)
{
    ph_graph *segment = NULL;
    ph_status status = create_segment(&segment, graph, call);
    if (status != PH_OK) {
        ph__graph_drop_capture(graph);
        return ph__graph_fail_capture(graph, status);
    }
    ph__cells_join(graph);
    ph__locate_join(graph);
    status = ph__capture_end(&graph->template, &graph->capture, false, call);
    if (status != PH_OK) {
        segment->whole = NULL;
        ph_graph_destroy(segment);
        if (graph->capture.stream) /* the wrong thread: still open */
            return ph__graph_fail(graph, status);
        ph__graph_close_pool(graph);
        return ph__graph_fail_capture(graph, status);
    }
    move_capture(segment, graph);
    graph->segments->list.at[graph->segments->list.count++] =
        (ph__graph_segment){segment, fn, user};
    status = read_segment(segment, graph, fn == NULL, call);
    return status == PH_OK ? PH_OK : fail_graph(graph, status);
}

/* ---- the next one ---- */
static ph_status begin_next(ph_graph *graph, ph_stream *stream, const char *call)
{
    const ph__segments *segments = graph->segments;
    ph_graph *before = segments->list.at[segments->list.count - 1].graph;
    ph_status status = ph__capture_begin(&graph->capture, stream, graph->capture.mode, call);
    if (status != PH_OK)
        return fail_graph(graph, status);
    graph->capture_open = true;
    status = ph__held_pass(before, graph->capture.id, call);
    if (status == PH_OK)
        status = ph__locate_begin(graph, call);
    if (status == PH_OK)
        return PH_OK;
    ph__graph_drop_capture(graph);
    return ph__graph_fail_capture(graph, status);
}

/* An exception has left a function of the break, or a hook of the process: as if the capture had
 * not begun. */
static void abandon_break(void *what)
{
    ph_graph *graph = what;
    ph_error saved;
    ph__error_save(&saved);
    ph_graph_capture_abort(graph);
    ph__graph_leave(graph);
    ph__error_restore(&saved);
}

static ph_status break_capture(ph_graph *graph, ph_stream *stream, ph_break_fn fn, void *user,
                               const char *call)
{
    PH_TRY(cut_segment(graph, fn, user, call));
    size_t after = graph->segments->list.count - 1;
    const ph__graph_segment segment = graph->segments->list.at[after];
    ph_status status =
        graph->defer_breaks ? PH_OK : ph__segments_call(graph, stream, &segment, after, call);
    return status == PH_OK ? begin_next(graph, stream, call) : fail_graph(graph, status);
}

/* ---- the call ---- */
static ph_status refuse_joined_stream(const ph_graph *graph, const ph_stream *stream,
                                      const char *call)
{
    return ph_fail(PH_ERROR_STATE,
                   "%s: stream %p has joined the capture, which began on stream %p; join it there "
                   "with ph_stream_wait_stream, and break on that one",
                   call, (const void *)stream, (const void *)graph->capture.stream);
}

static ph_status check_break(ph_graph *graph, const ph_stream *stream, const char *call)
{
    bool open = false;
    char which[128];
    if (graph->busy)
        return ph_fail(PH_ERROR_STATE,
                       "%s: called in a hook of the graph; call it in the captured function", call);
    if (!graph->allow_breaks)
        return ph_fail(PH_ERROR_STATE,
                       "%s: the capture allows no breaks; begin it with "
                       "ph_capture_options.allow_breaks, in a cache with its option capture "
                       "(graphed callables allow them in forward alone)",
                       call);
    if (stream != graph->capture.stream)
        return refuse_joined_stream(graph, stream, call);
    if (graph->capture.mode != PH_CAPTURE_RELAXED && graph->capture.owner_thread != ph__thread_id())
        return ph_fail(PH_ERROR_STATE,
                       "%s: called by another thread than the one that began the capture, which is "
                       "not relaxed; call it there, or use PH_CAPTURE_RELAXED",
                       call);
    if (graph->collectives)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: the segment has collectives, and their ranks agree on whole graphs; "
                       "capture without breaks, or call the collectives in functions of breaks",
                       call);
    ph__cells_join(graph);
    ph__locate_join(graph);
    PH_TRY(ph__forks_find_unjoined(&open, which, sizeof which, &graph->capture, call));
    if (open)
        return ph_fail(PH_ERROR_STATE,
                       "%s: %s, has work that the capture's stream does not wait for; join it "
                       "first, with ph_stream_wait_stream(the capture's stream, the forked one)",
                       call, which);
    return PH_OK;
}

ph_status ph_break(ph_stream *stream, ph_break_fn fn, void *user)
{
    static const char call[] = "ph_break";
    uint64_t id = 0;
    if (fn == NULL)
        return ph__fail_null(call, "fn");
    PH_TRY(ph__stream_check(stream, call));
    PH_TRY(ph__stream_find_capture(&id, stream, call));
    if (id == 0)
        return fn(stream, user);
    pthread_mutex_lock(&stream->device->capture_lock);
    ph_graph *graph = ph__capture_owner_locked(stream->device, id);
    pthread_mutex_unlock(&stream->device->capture_lock);
    if (graph == NULL)
        return ph__fail_native(
            PH_ERROR_CAPTURE, PH__R_CAPTURE_UNSUPPORTED, PH__NAME_STREAM_END_CAPTURE,
            "%s: the stream is in a capture that this library did not begin (id %llu), and cannot "
            "end; the call did not touch that capture; capture with ph_graph_capture",
            call, (unsigned long long)id);
    PH_TRY(check_break(graph, stream, call));
    PH__UNWIND unwind = {abandon_break, graph};
    ph_status status = break_capture(graph, stream, fn, user, call);
    unwind.undo = NULL;
    ph__graph_leave(graph);
    return status;
}

/* ---- the end ---- */
static bool is_empty(const ph__segments *segments)
{
    for (size_t i = 0; i < segments->list.count; i++)
        if (!ph__graph_is_empty(segments->list.at[i].graph))
            return false;
    return true;
}

static ph_status complete_graph(ph_graph *graph, const char *call)
{
    graph->state = PH_GRAPH_ENDED;
    if (is_empty(graph->segments))
        PH_TRY(ph__graph_report_empty(graph, call));
    graph->in_end_hooks = true;
    ph_status status = ph__hooks_run(graph, PH_HOOK_CAPTURE_END, graph->stream, 0);
    graph->in_end_hooks = false;
    if (status != PH_OK || graph->keep)
        return status;
    return ph__segments_ready(graph);
}

ph_status ph__segments_end_capture(ph_graph *graph, const char *call)
{
    PH__UNWIND unwind = {abandon_break, graph};
    ph_status ended = cut_segment(graph, NULL, NULL, call);
    unwind.undo = NULL;
    PH_TRY(ended);
    ph__pool_record_end(graph->own->pool, 0);
    ph_status status = complete_graph(graph, call);
    if (status != PH_OK)
        return ph__graph_fail_capture(graph, status);
    ph__stream_release(graph->stream);
    graph->stream = NULL;
    return PH_OK;
}
