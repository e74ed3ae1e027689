/* SPDX-License-Identifier: MIT */
/* graph/replay.c: launching the executable, ordered with all that shares its pools. */
#include "device/stream.h"
#include "graph/graph.h"

static const char call[] = "ph_graph_replay";

static ph_status check(const ph_graph *graph, const ph_stream *stream)
{
    PH_TRY(ph__graph_check(graph, PH__CALL_REPLAY));
    PH_TRY(ph__stream_check(stream, call));
    if (stream->device != graph->device)
        return ph_fail(PH_ERROR_WRONG_DEVICE,
                       "%s: the stream belongs to another device than the capture; replay on a stream of the "
                       "device that "
                       "it was captured on",
                       call);
    return PH_OK;
}

/* What may have to come before a launch and seldom has: the first executable, a stream not seen before. */
static ph_status prepare(ph_graph *graph, ph_stream *stream)
{
    if (graph->state == PH_GRAPH_ENDED) {
        ph_status status = ph__graph_make_exec(graph, call);
        if (graph->state == PH_GRAPH_FAILED)
            ph__graph_clear(graph);
        PH_TRY(status);
    }
    return ph__graph_note_stream(graph, stream, call);
}

static bool may_capture(const ph_device *device)
{
    return atomic_load_explicit(&device->open_captures, memory_order_relaxed) ||
           atomic_load_explicit(&device->foreign, memory_order_relaxed);
}

/* While captures may be open on the device: that of the stream, or 0; what would harm another one is refused
 * before it reaches the driver. */
static ph_status check_captures(uint64_t *capture_id, ph_stream *stream)
{
    PH_TRY(ph__stream_find_capture(capture_id, stream, call));
    if (*capture_id != 0)
        return PH_OK;
    PH_TRY(ph__legacy_check(stream, PH__RULE_EXEC_LAUNCH_LEGACY_BLOCKING));
    return ph__rule_check(stream->device, PH__RULE_EXEC_LAUNCH_OTHER);
}

static ph_status check_live(ph_graph *graph)
{
    return graph->liveness && ph__memory_deaths(graph->device) != graph->deaths
               ? ph__graph_check_live(graph, call)
               : PH_OK;
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

static ph_status launch(ph_graph *graph, ph_stream *stream)
{
    for (size_t i = 0; i < graph->pools.count; i++) {
        ph_status status = ph__pool_replay_begin(graph->pools.at[i]->pool, stream);
        if (status != PH_OK) {
            end_pools(graph, i, stream, false);
            return status;
        }
    }
    int result = graph->device->driver->exec_launch(graph->exec, stream->handle);
    end_pools(graph, graph->pools.count, stream, result == PH__R_OK);
    if (result == PH__R_OK)
        return PH_OK;
    if (result == PH__R_OUT_OF_MEMORY)
        return ph__fail_host_memory(call, "the launch of the graph");
    return ph__driver_fail(result, PH__NAME_GRAPH_LAUNCH, "%s: the graph was not launched", call);
}

static ph_status launch_with_cells(ph_graph *graph, ph_stream *stream)
{
    PH_TRY(ph__cells_begin(graph, call));
    ph_status status = launch(graph, stream);
    ph__cells_end(graph, status == PH_OK);
    return status;
}

static ph_status submit(ph_graph *graph, ph_stream *stream)
{
    return graph->cells ? launch_with_cells(graph, stream) : launch(graph, stream);
}

/* The end hooks see every replay that the start hooks let pass, also one whose launch failed. A start hook
 * may have begun a capture. */
static ph_status launch_with_hooks(ph_graph *graph, ph_stream *stream)
{
    ph_status status = ph__hooks_run(graph, PH_HOOK_REPLAY_START, stream, graph->exec_id);
    if (status == PH_OK) {
        ph_error failure;
        uint64_t capture_id = 0;
        if (may_capture(graph->device))
            status = check_captures(&capture_id, stream);
        if (status == PH_OK)
            status =
                capture_id ? ph__graph_into_capture(graph, stream, capture_id, call) : submit(graph, stream);
        ph__error_save(&failure);
        ph_ignore(ph__hooks_run(graph, PH_HOOK_REPLAY_END, stream, graph->exec_id));
        ph__error_restore(&failure);
    }
    ph__graph_leave(graph);
    return status;
}

ph_status ph_graph_replay(ph_graph *graph, ph_stream *stream)
{
    uint64_t capture_id = 0;
    /* The last stream may have been destroyed meanwhile, its address still being ours: that is looked at each
     * time. */
    bool usual = graph && graph->state == PH_GRAPH_READY && !graph->busy && stream &&
                 stream == graph->last_stream &&
                 !atomic_load_explicit(&stream->destroyed, memory_order_relaxed);
    if (!usual)
        PH_TRY(check(graph, stream));
    if (may_capture(graph->device))
        PH_TRY(check_captures(&capture_id, stream));
    if (capture_id) {
        PH_TRY(check_live(graph));
        return ph__graph_into_capture(graph, stream, capture_id, call);
    }
    if (!usual) {
        ph_status status = prepare(graph, stream);
        if (status != PH_OK) {
            ph__graph_leave(graph);
            return status;
        }
    }
    PH_TRY(check_live(graph));
    if (ph__hooks_any(&graph->hooks, PH_HOOK_REPLAY_START) ||
        ph__hooks_any(&graph->hooks, PH_HOOK_REPLAY_END))
        return launch_with_hooks(graph, stream);
    return submit(graph, stream);
}
