/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/relaunch.h: the usual replay: nothing but the launch has to be done. */
#ifndef PH_GRAPH_LIFECYCLE_RELAUNCH_H
#define PH_GRAPH_LIFECYCLE_RELAUNCH_H
#include "device/annotate/nvtx.h"
#include "device/handles/stream.h"
#include "driver/driver.h"
#include "graph/inputs/liveness.h"
#include "graph/lifecycle/hooks.h"
#include "graph/object/graph.h"
#include "graph/slots/slots.h"
#include "memory/pool/replay.h"

ph_status ph__relaunch_fail(int result, const char *call);

/* Without the checks that the last replay passed. The last stream may have been destroyed
 * meanwhile, its address still being ours: that is looked at each time. */
static inline bool ph__replays_as_before(const ph_graph *graph, const ph_stream *stream)
{
    return graph && graph->state == PH_GRAPH_READY && !graph->busy && stream &&
           stream == graph->last_stream &&
           !atomic_load_explicit(&stream->destroyed, memory_order_relaxed);
}

/* But for liveness nothing stands between the question whether the stream is capturing and the
 * launch, which asks it again, under the lock: once is enough. */
static inline bool ph__replays_at_once(const ph_graph *graph)
{
    return (!graph->slots || ph__slots_are_applied(graph->slots)) && !graph->cells &&
           !graph->collectives && !ph__hooks_any(&graph->hooks, PH_HOOK_REPLAY_START) &&
           !ph__hooks_any(&graph->hooks, PH_HOOK_REPLAY_END);
}

/* Where nothing but the launch has to be done, as most times: the driver asks whether the stream is
 * capturing, and no capture begins there before the launch. *launched: false with PH_OK: nothing
 * was done. asked: this call has asked already, and no function of the user's was called since: of
 * captures that begin meanwhile only those of this library need to be seen. */
static inline ph_status ph__exec_relaunch(bool *launched, ph_graph *graph, ph_stream *stream,
                                          bool asked, const char *call)
{
    const ph_device *device = graph->device;
    *launched = false;
    if (graph->pools.count != 1 || ph__nvtx_on() ||
        atomic_load_explicit(&device->open_captures, memory_order_relaxed) != 0)
        return PH_OK;
    ph__writer *writer = graph->own ? graph->own : graph->pools.at[0];
    ph_pool *pool = writer->pool;
    if (!ph__pool_replay_begin_again(pool, stream))
        return PH_OK;
    bool done = false;
    int result = device->driver->exec_relaunch(
        graph->exec, stream->handle,
        !asked && atomic_load_explicit(&device->foreign, memory_order_relaxed), &done);
    if (__builtin_expect(result != PH__R_OK || !done, false)) {
        (void)ph__pool_replay_end_again(pool, false);
        return result == PH__R_OK ? PH_OK : ph__relaunch_fail(result, call);
    }
    uint64_t epoch = ph__pool_replay_end_again(pool, true);
    atomic_store_explicit(&writer->last, epoch, memory_order_relaxed);
    graph->epoch = epoch;
    *launched = true;
    return PH_OK;
}

/* A replay without values, where it is as the last one was and no function of the user's, and no
 * message, may come of it. *launched as above. */
static inline ph_status ph__graph_relaunch(bool *launched, ph_graph *graph, ph_stream *stream,
                                           const char *call)
{
    *launched = false;
    if (!ph__replays_as_before(graph, stream) || !ph__replays_at_once(graph))
        return PH_OK;
    if (!graph->liveness)
        return ph__exec_relaunch(launched, graph, stream, false, call);
    if (graph->slots || !ph__graph_lives_as_before(graph))
        return PH_OK;
    ph_status status = ph__exec_relaunch(launched, graph, stream, false, call);
    if (*launched)
        ph__graph_lived(graph);
    return status;
}
#endif
