/* SPDX-License-Identifier: MIT */
/* memory/pool/foreign_recordings.c: captures that other code began, whose memory comes from a
 * pool. To the pool they are captures as those of this library, whose graph it does not know. */
#include "device/handles/captures.h"
#include "memory/pool/pool.h"
#include "memory/pool/recording.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"
#include "memory/streams/deferred.h"
#include <phonograph/foreign.h>
#include <phonograph/graph.h>

static bool has_pool(ph__memory *memory, uint64_t capture_id)
{
    ph__memory_lock(memory);
    const ph_pool *pool = memory->routes;
    while (pool && pool->capture_id != capture_id)
        pool = pool->next_route;
    ph__spin_unlock(&memory->lock);
    return pool != NULL;
}

/* *capture_id: of the capture of other code that the stream is in. */
static ph_status find_foreign_capture(uint64_t *capture_id, ph_stream *stream, const char *call)
{
    ph_capture_info info;
    PH_TRY(ph_stream_get_capture_info(&info, stream));
    if (info.status == PH_CAPTURE_NONE)
        return ph_fail(PH_ERROR_STATE,
                       "%s: the stream is in no capture; begin the capture first, by the code that "
                       "owns it",
                       call);
    if (info.status != PH_CAPTURE_ACTIVE)
        return ph__fail_native(
            PH_ERROR_CAPTURE, PH__R_CAPTURE_INVALIDATED, PH__NAME_STREAM_GET_CAPTURE_INFO,
            "%s: the capture of the stream is broken; end it and begin another", call);
    if (!ph__capture_is_foreign(stream, info.id))
        return ph_fail(PH_ERROR_STATE,
                       "%s: this library began the capture of the stream, which has a pool "
                       "(ph_capture_options.pool)",
                       call);
    *capture_id = info.id;
    return PH_OK;
}

ph_status ph_pool_capture_begin(ph_pool *pool, ph_stream *stream)
{
    static const char call[] = "ph_pool_capture_begin";
    uint64_t capture_id = 0;
    PH_TRY(ph__pool_check(pool, call));
    PH_TRY(ph__stream_check(stream, call));
    PH_TRY(find_foreign_capture(&capture_id, stream, call));
    ph__memory *memory = pool->memory;
    if (has_pool(memory, capture_id))
        return ph_fail(PH_ERROR_STATE,
                       "%s: the capture (id %llu) has a pool; one pool records a capture", call,
                       (unsigned long long)capture_id);
    PH_TRY(ph__pool_record_begin(pool, stream->device, call));
    ph__captures_enter(stream->device);
    ph__memory_lock(memory);
    pool->foreign_capture = capture_id;
    pool->foreign_captures++;
    ph__spin_unlock(&memory->lock);
    ph__pool_record_publish(pool, capture_id);
    return PH_OK;
}

ph_status ph_pool_capture_end(ph_pool *pool)
{
    static const char call[] = "ph_pool_capture_end";
    PH_TRY(ph__pool_check(pool, call));
    ph__memory *memory = pool->memory;
    ph__memory_lock(memory);
    uint64_t capture_id = pool->foreign_capture;
    pool->foreign_capture = 0;
    ph__spin_unlock(&memory->lock);
    if (capture_id == 0)
        return ph_fail(PH_ERROR_STATE, "%s: no capture of other code records to the pool", call);
    ph__captures_leave(memory->device);
    ph__pool_record_end(pool, capture_id);
    if (ph__slow_path_has(memory, PH__SLOW_DEFERRED))
        ph__deferred_process(memory, capture_id);
    return PH_OK;
}

ph_status ph_pool_capture_release(ph_pool *pool)
{
    static const char call[] = "ph_pool_capture_release";
    PH_TRY(ph__pool_check(pool, call));
    ph__memory *memory = pool->memory;
    ph__memory_lock(memory);
    bool ended = pool->foreign_captures > (pool->foreign_capture ? 1 : 0);
    pool->foreign_captures -= ended;
    ph__spin_unlock(&memory->lock);
    if (!ended)
        return ph_fail(PH_ERROR_STATE,
                       "%s: no capture of other code in the pool was ended and not released", call);
    ph__pool_graph_release(pool);
    return PH_OK;
}
