/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/segments.c: graphs with breaks: their replays. */
#include "graph/lifecycle/segments.h"
#include "base/unwind.h"
#include "device/handles/stream.h"
#include "graph/inputs/liveness.h"
#include "graph/lifecycle/graph.h"
#include "graph/lifecycle/hooks.h"
#include "graph/lifecycle/instantiate.h"
#include "graph/lifecycle/replay_streams.h"

/* ---- the functions ---- */
typedef struct calling {
    ph_graph *graph;
    ph_stream *stream;
} calling;

static void leave_function(void *what)
{
    const calling *c = what;
    c->graph->busy--;
    ph__stream_release(c->stream);
}

static ph_status fail_function(ph_status status, size_t after, const char *call)
{
    if (ph_error_last()->status == status)
        ph__error_prefix("%s: the break after segment %zu", call, after);
    else
        ph__fail_given(status, "%s: the function of the break after segment %zu", call, after);
    return status;
}

/* The function may have done anything to the stream, and to the graph. */
static ph_status check_return(const ph_graph *graph, const ph_stream *stream, size_t after,
                              const char *call)
{
    uint64_t open = 0;
    if (graph->doomed)
        return ph_fail(PH_ERROR_STATE,
                       "%s: the function of the break after segment %zu destroyed the graph", call,
                       after);
    PH_TRY(ph__stream_check(stream, call));
    PH_TRY(ph__stream_find_capture(&open, stream, call));
    if (open)
        return ph_fail(PH_ERROR_STATE,
                       "%s: the function of the break after segment %zu left a capture open on the "
                       "stream; end it in the function",
                       call, after);
    return PH_OK;
}

ph_status ph__segments_call(ph_graph *graph, ph_stream *stream, const ph__graph_segment *segment,
                            size_t after, const char *call)
{
    calling c = {graph, ph__stream_retain(stream)};
    graph->busy++;
    PH__UNWIND unwind = {leave_function, &c};
    ph_status status = segment->fn(stream, segment->user);
    unwind.undo = NULL;
    graph->busy--;
    status = status == PH_OK ? check_return(graph, stream, after, call)
                             : fail_function(status, after, call);
    ph__stream_release(stream);
    return status;
}

/* ---- replays ---- */
static ph_status refuse_capturing(const ph_stream *stream, const char *call)
{
    uint64_t open = 0;
    PH_TRY(ph__stream_find_capture(&open, stream, call));
    if (open == 0)
        return PH_OK;
    return ph_fail(PH_ERROR_UNSUPPORTED,
                   "%s: the stream is capturing, and a graph with breaks cannot become a part of "
                   "another: nobody would call its functions; replay it outside the capture, or "
                   "capture its work there, in a capture with allow_breaks",
                   call);
}

/* Inputs that are known to be gone stop the replay before its first launch. */
static ph_status check_live(const ph__segments *segments, const char *call)
{
    unsigned how;
    for (size_t i = 0; i < segments->list.count; i++) {
        ph_graph *segment = segments->list.at[i].graph;
        if (segment->liveness && ph__graph_must_check_live(segment, &how))
            PH_TRY(ph__graph_check_live(segment, how, call));
    }
    return PH_OK;
}

/* A function, or a hook of the process, has not returned. */
static void abandon_replay(void *graph)
{
    ph__graph_leave(graph);
}

static inline ph_status mark(const ph__segments *segments, ph_stream *stream, size_t place)
{
    return segments->mark ? segments->mark(segments->mark_user, stream, place) : PH_OK;
}

static ph_status launch_segments(ph_graph *graph, ph_stream *stream, const char *call)
{
    ph__segments *segments = graph->segments;
    for (size_t i = 0; i < segments->list.count; i++) {
        const ph__graph_segment *segment = &segments->list.at[i];
        PH_TRY(mark(segments, stream, 2 * i));
        ph_status status = ph_graph_replay(segment->graph, stream);
        if (status != PH_OK) {
            ph__error_prefix("%s: segment %zu of %zu", call, i, segments->list.count);
            return status;
        }
        segments->launched = i + 1;
        graph->epoch = ph_graph_epoch(segment->graph);
        PH_TRY(mark(segments, stream, 2 * i + 1));
        if (segment->fn)
            PH_TRY(ph__segments_call(graph, stream, segment, i, call));
    }
    return PH_OK;
}

/* The end hooks see every replay that the start hooks let pass. */
static ph_status replay_with_hooks(ph_graph *graph, ph_stream *stream, const char *call)
{
    ph_error failure;
    PH_TRY(ph__hooks_run(graph, PH_HOOK_REPLAY_START, stream, graph->exec_id));
    PH__UNWIND unwind = {abandon_replay, graph};
    ph_status status = launch_segments(graph, stream, call);
    unwind.undo = NULL;
    ph__error_save(&failure);
    ph_ignore(ph__hooks_run(graph, PH_HOOK_REPLAY_END, stream, graph->exec_id));
    ph__error_restore(&failure);
    return status;
}

ph_status ph__segments_replay(ph_graph *graph, ph_stream *stream, const char *call)
{
    graph->segments->launched = 0;
    PH_TRY(refuse_capturing(stream, call));
    ph_status status = ph__graph_need_exec(graph, call);
    if (status == PH_OK)
        status = check_live(graph->segments, call);
    if (status == PH_OK)
        status = ph__graph_note_stream(graph, stream, call);
    graph->last_stream = NULL; /* has no executable, which replays on it would launch at once */
    if (status == PH_OK)
        status = replay_with_hooks(graph, stream, call);
    ph__graph_leave(graph);
    return status;
}
