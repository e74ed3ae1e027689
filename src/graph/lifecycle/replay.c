/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/replay.c: launching the executable, ordered with all that shares its pools. */
#include "memory/pool/replay.h"
#include "device/annotate/nvtx.h"
#include "device/capture/legacy.h"
#include "device/capture/outside.h"
#include "device/capture/refuse.h"
#include "graph/inputs/liveness.h"
#include "graph/lifecycle/child.h"
#include "graph/lifecycle/graph.h"
#include "graph/lifecycle/hooks.h"
#include "graph/lifecycle/instantiate.h"
#include "graph/lifecycle/relaunch.h"
#include "graph/lifecycle/replay_streams.h"
#include "graph/lifecycle/segments.h"
#include "graph/lifecycle/uploaded.h"
#include "graph/locate/probes_exec.h"
#include "graph/memory/cells_replay.h"
#include "graph/object/collectives.h"
#include "graph/object/graph.h"
#include "graph/slots/slots_set.h"
#include <stdio.h>

/* One of the two calls: ph_graph_replay_with has values. */
typedef struct request {
    ph__graph_call which;
    const char *call;
    const ph_slot_value *values;
    size_t count;
} request;

static ph_status check_replay(const ph_graph *graph, const ph_stream *stream, const request *r)
{
    const char *call = r->call;
    PH_TRY(ph__graph_check(graph, r->which));
    PH_TRY(ph__stream_check(stream, call));
    if (stream->device != graph->device)
        return ph__fail_devices(call, "the graph", graph->device, "the stream", stream->device);
    return PH_OK;
}

static bool may_capture(const ph_device *device)
{
    return atomic_load_explicit(&device->open_captures, memory_order_relaxed) ||
           atomic_load_explicit(&device->foreign, memory_order_relaxed);
}

/* While captures may be open on the device: that of the stream, or 0; what would harm another
 * one is refused before it reaches the driver. */
static ph_status find_open_capture(uint64_t *capture_id, ph_stream *stream, const char *call)
{
    PH_TRY(ph__stream_find_capture(capture_id, stream, call));
    if (*capture_id != 0)
        return PH_OK;
    ph__outside_note(stream, call);
    PH_TRY(ph__legacy_check(stream, PH__RULE_EXEC_LAUNCH_LEGACY_BLOCKING));
    return ph__rule_check(stream->device, PH__RULE_EXEC_LAUNCH_OTHER);
}

/* While stream->asks is shared. */
static ph_status order_replay(uint64_t *capture_id, ph_graph *graph, ph_stream *stream,
                              const char *call)
{
    if (may_capture(graph->device))
        PH_TRY(find_open_capture(capture_id, stream, call));
    if (*capture_id)
        return PH_OK;
    if (graph->uploaded)
        PH_TRY(ph__upload_wait(graph, stream, call));
    return ph__graph_note_stream(graph, stream, call);
}

/* Steps that may have to come before a launch and seldom do: the first executable, whose hooks may
 * have begun a capture, its upload, a stream not seen before. */
static ph_status prepare_replay(uint64_t *capture_id, ph_graph *graph, ph_stream *stream,
                                const char *call)
{
    PH_TRY(ph__graph_need_exec(graph, call));
    ph__shared_lock(&stream->asks);
    ph_status status = order_replay(capture_id, graph, stream, call);
    ph__shared_unlock(&stream->asks);
    return status;
}

static inline ph_status check_live(ph_graph *graph, const char *call)
{
    unsigned how;
    return graph->liveness && ph__graph_must_check_live(graph, &how)
               ? ph__graph_check_live(graph, how, call)
               : PH_OK;
}

/* The template's nodes become a part of the stream's capture, as they were captured. *over:
 * nothing was done, as another thread has ended that capture meanwhile. */
static ph_status into_capture(bool *over, ph_graph *graph, ph_stream *stream, uint64_t capture_id,
                              const request *r)
{
    *over = false;
    if (r->which == PH__CALL_REPLAY_WITH)
        return ph_fail(
            PH_ERROR_STATE,
            "%s: the stream is capturing, and what a graph puts into a capture has the template's "
            "addresses and values; use ph_graph_replay, or replay outside the capture",
            r->call);
    if (graph->liveness && graph->slots)
        PH_TRY(ph__graph_check_live(graph, PH__LIVE_AS_CAPTURED, r->call));
    else
        PH_TRY(check_live(graph, r->call));
    return ph__graph_into_capture(over, graph, stream, capture_id, r->call);
}

static void end_pools(ph_graph *graph, size_t count, ph_stream *stream, bool launched)
{
    while (count--) {
        ph__writer *writer = graph->pools.at[count];
        uint64_t epoch = ph__pool_replay_end(writer->pool, stream, launched);
        if (!launched)
            continue;
        atomic_store_explicit(&writer->last, epoch, memory_order_relaxed);
        if (writer == graph->own)
            graph->epoch = epoch;
    }
}

/* By the number that messages call it by. */
__attribute__((noinline)) static void begin_range(const ph_graph *graph)
{
    char name[32];
    (void)snprintf(name, sizeof name, "graph %llu", (unsigned long long)graph->id);
    ph__nvtx_push(name);
}

/* While stream->asks is shared. */
static ph_status launch_asked(ph_graph *graph, ph_stream *stream, const char *call)
{
    for (size_t i = 0; i < graph->pools.count; i++) {
        ph_status status = ph__pool_replay_begin(graph->pools.at[i]->pool, stream);
        if (status != PH_OK) {
            end_pools(graph, i, stream, false);
            return status;
        }
    }
    if (ph__nvtx_on())
        begin_range(graph);
    int result = graph->device->driver->exec_launch(graph->exec, stream->handle);
    if (ph__nvtx_on())
        ph__nvtx_pop();
    end_pools(graph, graph->pools.count, stream, result == PH__R_OK);
    return result == PH__R_OK ? PH_OK : ph__relaunch_fail(result, call);
}

/* *capture_id: a capture that another thread has begun since the caller asked; nothing was
 * launched then. */
static ph_status launch_exec(uint64_t *capture_id, ph_graph *graph, ph_stream *stream,
                             const char *call)
{
    ph_status status = PH_OK;
    ph__shared_lock(&stream->asks);
    if (may_capture(graph->device))
        status = find_open_capture(capture_id, stream, call);
    if (status == PH_OK && *capture_id == 0)
        status = launch_asked(graph, stream, call);
    ph__shared_unlock(&stream->asks);
    return status;
}

static ph_status launch_with_cells(uint64_t *capture_id, ph_graph *graph, ph_stream *stream,
                                   const char *call)
{
    PH_TRY(ph__cells_begin(graph, call));
    ph_status status = launch_exec(capture_id, graph, stream, call);
    ph__cells_end(graph, status == PH_OK && *capture_id == 0);
    return status;
}

__attribute__((noinline)) static ph_status launch_or_nest(ph_graph *graph, ph_stream *stream,
                                                          const request *r)
{
    ph_status status = PH_OK;
    bool over;
    do {
        uint64_t capture_id = 0;
        over = false;
        PH_TRY(graph->cells ? launch_with_cells(&capture_id, graph, stream, r->call)
                            : launch_exec(&capture_id, graph, stream, r->call));
        if (capture_id)
            status = into_capture(&over, graph, stream, capture_id, r);
    } while (over);
    return status;
}

static inline ph_status launch_again(ph_graph *graph, ph_stream *stream, bool asked,
                                     const request *r)
{
    bool launched = false;
    if (!graph->cells)
        PH_TRY(ph__exec_relaunch(&launched, graph, stream, asked, r->call));
    return launched ? PH_OK : launch_or_nest(graph, stream, r);
}

/* The ranks of its collectives agree first. */
__attribute__((noinline)) static ph_status launch_collectives(ph_graph *graph, ph_stream *stream,
                                                              const request *r)
{
    ph__collectives *collectives = graph->collectives;
    PH_TRY(collectives->begin(collectives, stream, r->call));
    ph_status status = launch_again(graph, stream, false, r);
    collectives->end(collectives, stream, status == PH_OK);
    return status;
}

static ph_status submit_replay(ph_graph *graph, ph_stream *stream, bool asked, const request *r)
{
    if (graph->slots)
        PH_TRY(ph__slots_apply(graph, r->call));
    return __builtin_expect(graph->collectives != NULL, 0) ? launch_collectives(graph, stream, r)
                                                           : launch_again(graph, stream, asked, r);
}

static ph_status submit_or_capture(ph_graph *graph, ph_stream *stream, uint64_t capture_id,
                                   const request *r)
{
    bool over = true;
    ph_status status = capture_id ? into_capture(&over, graph, stream, capture_id, r) : PH_OK;
    return over ? submit_replay(graph, stream, false, r) : status;
}

/* The end hooks see every replay that the start hooks let pass, also one whose launch failed. A
 * start hook may have begun a capture. */
static ph_status launch_with_hooks(ph_graph *graph, ph_stream *stream, const request *r)
{
    ph_status status = ph__hooks_run(graph, PH_HOOK_REPLAY_START, stream, graph->exec_id);
    if (status == PH_OK) {
        ph_error failure;
        uint64_t capture_id = 0;
        if (may_capture(graph->device))
            status = find_open_capture(&capture_id, stream, r->call);
        if (status == PH_OK)
            status = submit_or_capture(graph, stream, capture_id, r);
        ph__error_save(&failure);
        ph_ignore(ph__hooks_run(graph, PH_HOOK_REPLAY_END, stream, graph->exec_id));
        ph__error_restore(&failure);
    }
    ph__slots_drop_staged(graph);
    ph__graph_leave(graph);
    return status;
}

/* Behind the checks of the graph and the stream. What was staged does not outlive it. */
static ph_status launch_checked(ph_graph *graph, ph_stream *stream, bool asked, const request *r)
{
    ph_status status = check_live(graph, r->call);
    if (status != PH_OK) {
        ph__slots_drop_staged(graph);
        return status;
    }
    if (ph__hooks_any(&graph->hooks, PH_HOOK_REPLAY_START) ||
        ph__hooks_any(&graph->hooks, PH_HOOK_REPLAY_END))
        return launch_with_hooks(graph, stream, r);
    return submit_replay(graph, stream, asked, r);
}

/* A graph with breaks has no slots of its own. */
static ph_status replay_segments(ph_graph *graph, ph_stream *stream, const request *r)
{
    if (r->count > 0)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: the graph has breaks, and slots are of one segment; replay it without "
                       "values, or a graph of ph_graph_segment alone",
                       r->call);
    return ph__segments_replay(graph, stream, r->call);
}

/* Once more, where *over. */
static ph_status replay_once(bool *over, ph_graph *graph, ph_stream *stream, const request *r)
{
    uint64_t capture_id = 0;
    *over = false;
    bool usual = ph__replays_as_before(graph, stream);
    if (!usual)
        PH_TRY(check_replay(graph, stream, r));
    if (!usual && graph->segments)
        return replay_segments(graph, stream, r);
    if (usual && r->which == PH__CALL_REPLAY && !graph->liveness && ph__replays_at_once(graph))
        return submit_replay(graph, stream, false, r);
    bool asks = may_capture(graph->device);
    if (asks)
        PH_TRY(find_open_capture(&capture_id, stream, r->call));
    if (capture_id)
        return into_capture(over, graph, stream, capture_id, r);
    if (!usual) {
        ph_status status = prepare_replay(&capture_id, graph, stream, r->call);
        if (status != PH_OK) {
            ph__graph_leave(graph);
            return status;
        }
        if (capture_id)
            return into_capture(over, graph, stream, capture_id, r);
    }
    if (r->which == PH__CALL_REPLAY_WITH)
        PH_TRY(ph__slots_stage(graph, r->values, r->count, r->call));
    /* a warning of liveness may call the program's log function */
    return launch_checked(graph, stream, asks && !graph->liveness, r);
}

__attribute__((noinline)) static ph_status replay(ph_graph *graph, ph_stream *stream,
                                                  const request *r)
{
    bool over;
    ph_status status;
    do
        status = replay_once(&over, graph, stream, r);
    while (over);
    return status;
}

ph_status ph_graph_replay(ph_graph *graph, ph_stream *stream)
{
    static const request plain = {PH__CALL_REPLAY, "ph_graph_replay", NULL, 0};
    bool launched;
    PH_TRY(ph__graph_relaunch(&launched, graph, stream, plain.call));
    return launched ? PH_OK : replay(graph, stream, &plain);
}

/* Whether the slots have all of the values, and no look has to tell so. */
static inline bool pass_over_all(const ph_graph *graph, const ph_slot_value *values, size_t count)
{
    ph__slots *slots = graph->slots;
    if (graph->liveness || slots->grouped)
        return false;
    slots->calls++;
    for (size_t i = 0; i < count; i++)
        if (!ph__slots_pass_over(slots, &values[i]))
            return false;
    return true;
}

/* The usual replay, with values that the slots have or with one whose memory is looked up:
 * *launched as of ph__graph_relaunch. False with PH_OK: nothing was done, but that the slot may
 * have the value. */
static inline ph_status relaunch_with(bool *launched, ph_graph *graph, ph_stream *stream,
                                      const ph_slot_value *values, size_t count, const char *call)
{
    uint64_t capture_id = 0;
    *launched = false;
    if (!ph__replays_as_before(graph, stream) || !graph->slots || !ph__replays_at_once(graph))
        return PH_OK;
    bool set = count == 1 && ph__slots_look_up(graph->slots, values);
    if (!set && !pass_over_all(graph, values, count))
        return PH_OK;
    bool asks = may_capture(graph->device);
    if (asks)
        PH_TRY(find_open_capture(&capture_id, stream, call));
    if (capture_id)
        return PH_OK;
    if (set) {
        PH_TRY(ph__slots_set_usual(&set, graph, values, call));
        if (!set)
            return PH_OK;
    }
    return ph__exec_relaunch(launched, graph, stream, asks, call);
}

ph_status ph_graph_replay_with(ph_graph *graph, ph_stream *stream, const ph_slot_value *values,
                               size_t count)
{
    static const char call[] = "ph_graph_replay_with";
    bool launched = false;
    if (values)
        PH_TRY(relaunch_with(&launched, graph, stream, values, count, call));
    if (launched)
        return PH_OK;
    return replay(graph, stream, &(request){PH__CALL_REPLAY_WITH, call, values, count});
}
