/* SPDX-License-Identifier: MIT */
/* memory/pool/replay.c: the order of replays that share a pool, across streams and behind eager
 * work on its memory, and their epochs. */
#include "memory/pool/replay.h"
#include "base/vec.h"
#include "memory/block/block.h"
#include "memory/reclaim/pool_lifetime.h"
#include "memory/state/memories.h"
#include "memory/state/memory_state.h"
#include "memory/state/pool_state.h"
#include "memory/state/short_cycle.h"
#include "memory/streams/events.h"
#include "memory/streams/replay_streams.h"
#include <string.h>

/* The default stream is marked at once, behind the replay. What it was given since may read what
 * that left: where no capture can forbid it, it is marked anew, as other streams are. */
static bool may_mark_again(const ph_pool *pool)
{
    const ph__memory *memory = pool->memory;
    uint64_t id = 0;
    return pool->last_replay->is_default && !ph__capturing(memory) &&
           memory->driver->capture_id(&id, pool->last_replay->handle) == PH__R_OK && id == 0;
}

/* Records the pool's event behind its last replay. The replay lock is held; the last stream is
 * in no capture. */
static ph_status mark_last(ph_pool *pool, const char *call)
{
    ph__memory *memory = pool->memory;
    if (pool->replay_marked && !may_mark_again(pool))
        return PH_OK;
    /* Captures of this library let it be marked before they begin. */
    if (ph__stream_capture_id(pool->last_replay) != 0)
        return ph__fail_native(
            PH_ERROR_CAPTURE, PH__R_CAPTURE_UNSUPPORTED, PH__NAME_EVENT_RECORD,
            "%s: the last replay from the same pool ran on a stream that is now in a capture "
            "which this library did not begin, so that nothing can be ordered behind it; that "
            "capture was not touched; do it after its end, or replay on the same stream",
            call);
    int result = PH__R_OK;
    if (!pool->replayed && !(pool->replayed = ph__mark_acquire(memory, &result)))
        return ph__driver_fail(result, PH__NAME_EVENT_CREATE,
                               "%s: behind the last replay from the same pool", call);
    result = memory->driver->event_record(pool->replayed, pool->last_replay->handle,
                                          PH__EVENT_RECORD_DEFAULT);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_EVENT_RECORD,
                               "%s: behind the last replay from the same pool", call);
    pool->replay_marked = true;
    ph__memory_lock(memory);
    ph__pool_replay_marked(pool);
    ph__spin_unlock(&memory->lock);
    return PH_OK;
}

static ph_status wait_for_event(ph_pool *pool, ph_stream *stream, ph__drv_event *event,
                                const char *call)
{
    int result =
        pool->memory->driver->stream_wait_event(stream->handle, event, PH__EVENT_RECORD_DEFAULT);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_STREAM_WAIT_EVENT,
                               "%s: ordering it behind earlier work on memory of the pool", call);
    return PH_OK;
}

static ph_status wait_for_last(ph_pool *pool, ph_stream *stream, const char *call)
{
    if (!pool->last_replay || pool->last_replay == stream)
        return PH_OK;
    PH_TRY(mark_last(pool, call));
    return wait_for_event(pool, stream, pool->replayed, call);
}

ph_status ph__pool_replay_begin(ph_pool *pool, ph_stream *stream)
{
    static const char call[] = "ph_graph_replay";
    ph__mutex_lock(&pool->replay_lock);
    ph_status status = wait_for_last(pool, stream, call);
    for (size_t i = 0; i < pool->before.count && status == PH_OK; i++)
        if (pool->before.at[i].stream != stream->id)
            status = wait_for_event(pool, stream, pool->before.at[i].event, call);
    if (status != PH_OK)
        ph__mutex_unlock(&pool->replay_lock);
    return status;
}

uint64_t ph__pool_replay_end(ph_pool *pool, ph_stream *stream, bool launched)
{
    ph_stream *before = NULL;
    unsigned references = 0;
    uint64_t epoch = 0;
    if (launched) {
        /* the lock orders the writers */
        epoch = atomic_load_explicit(&pool->epoch, memory_order_relaxed) + 1;
        atomic_store_explicit(&pool->epoch, epoch, memory_order_release);
        while (pool->before.count > 0) /* later replays are ordered behind this one */
            ph__mark_recycle(pool->memory, pool->before.at[--pool->before.count].event);
        if (pool->last_replay != stream || pool->replay_marked) {
            /* Others read the stream under the hot lock alone. */
            ph__memory_lock(pool->memory);
            references = ph__pool_replayed_on(pool, stream, &before);
            ph__spin_unlock(&pool->memory->lock);
        }
        pool->replay_marked = false;
        /* Later, a capture with blocking streams could forbid records on the default stream. */
        if (stream->is_default) {
            ph_error saved;
            ph__error_save(&saved);
            if (mark_last(pool, "ph_graph_replay") != PH_OK)
                ph__error_restore(&saved);
        }
    }
    ph__mutex_unlock(&pool->replay_lock);
    while (references-- > 0)
        ph__stream_release(before);
    return epoch;
}

static void unkeep_pool(ph__memory *memory, ph_pool *pool)
{
    ph_pool *dead = NULL;
    ph__memory_lock(memory);
    ph__pool_unkeep(pool, &dead);
    ph__spin_unlock(&memory->lock);
    ph__pool_bury(dead);
}

void ph__replays_wait_idle(ph__memory *memory, ph_stream *stream)
{
    ph__memory_lock(memory);
    size_t count = stream->replays.pool_count;
    ph__spin_unlock(&memory->lock);
    for (; count > 0; count--) {
        ph__memory_lock(memory);
        ph_pool *pool = stream->replays.first_pool;
        if (pool) {
            pool->keeps++;
            ph__pool_replay_marked(pool); /* to the end: it captures no more */
        }
        ph__spin_unlock(&memory->lock);
        if (!pool)
            return;
        ph__mutex_lock(&pool->replay_lock);
        ph__mutex_unlock(&pool->replay_lock);
        unkeep_pool(memory, pool);
    }
}

uint64_t ph__pool_epoch(const ph_pool *pool)
{
    return atomic_load(&((ph_pool *)(uintptr_t)pool)->epoch);
}

ph_status ph__replays_before_use(ph_pool *pool, ph_stream *stream, const char *call)
{
    ph__mutex_lock(&pool->replay_lock);
    ph_status status = wait_for_last(pool, stream, call);
    ph__mutex_unlock(&pool->replay_lock);
    return status;
}

/* ---- before a stream captures ---- */

/* A capture into the pool may be given memory that the stream's ordinary work has used. Lock
 * held. */
static bool captures_memory_of(const ph_pool *pool, const ph_stream *stream)
{
    ph__step(pool->memory);
    return ph__heap_has_stream(pool->heap, stream->id);
}

/* Notes where the stream's ordinary work ends: replays of what is captured now come behind it.
 * One note for each stream, and none for those that are done. The replay lock is held. */
static ph_status mark_before(ph_pool *pool, const ph_stream *stream)
{
    ph__memory *memory = pool->memory;
    int result = PH__R_OK, unused = PH__R_OK;
    for (size_t i = pool->before.count; i-- > 0;)
        if (pool->before.at[i].stream == stream->id ||
            ph__mark_done(memory, pool->before.at[i].event, false, &unused)) {
            ph__mark_recycle(memory, pool->before.at[i].event);
            pool->before.at[i] = pool->before.at[--pool->before.count];
        }
    if (!ph__vec_reserve(&pool->before, 1))
        return ph__fail_host_memory("ph_graph_capture_begin", "the order of replays");
    ph__drv_event *event = ph__mark_acquire(memory, &result);
    if (event)
        result = memory->driver->event_record(event, stream->handle, PH__EVENT_RECORD_DEFAULT);
    if (result == PH__R_OK) {
        pool->before.at[pool->before.count++] = (ph__mark){stream->id, event};
        return PH_OK;
    }
    ph__mark_recycle(memory, event);
    return ph__driver_fail(result, event ? PH__NAME_EVENT_RECORD : PH__NAME_EVENT_CREATE,
                           "ph_graph_capture_begin: behind the stream's work so far");
}

/* A pool that was last replayed on the stream, and behind whose replay no event is recorded;
 * kept. */
static ph_pool *next_unmarked(ph__memory *memory, const ph_stream *stream)
{
    ph__memory_lock(memory);
    ph_pool *pool = stream->replays.first_pool;
    if (pool && pool->behind)
        pool = NULL;
    if (pool)
        pool->keeps++;
    ph__spin_unlock(&memory->lock);
    return pool;
}

/* The next pool into which a capture records that began before number *before, which becomes its
 * own, and may be given memory of the stream; kept. */
static ph_pool *next_recording(ph__memory *memory, uint64_t *before, const ph_stream *stream)
{
    ph__memory_lock(memory);
    ph_pool *pool = ph__recordings;
    while (pool &&
           (pool->memory != memory || pool->begun >= *before || !captures_memory_of(pool, stream)))
        pool = pool->next_recording;
    if (pool) {
        pool->keeps++;
        *before = pool->begun;
    }
    ph__spin_unlock(&memory->lock);
    return pool;
}

static ph_status mark_replay(ph_pool *pool, const ph_stream *stream)
{
    ph_status status = PH_OK;
    ph__mutex_lock(&pool->replay_lock);
    if (pool->last_replay == stream)
        status = mark_last(pool, "ph_graph_capture_begin");
    ph__mutex_unlock(&pool->replay_lock);
    return status;
}

ph_status ph__replays_before_capture(ph__attachment *attachment, ph_stream *stream)
{
    ph__memory *memory = (ph__memory *)attachment;
    ph_status status = PH_OK;
    for (ph_pool *pool; status == PH_OK && (pool = next_unmarked(memory, stream));) {
        status = mark_replay(pool, stream);
        unkeep_pool(memory, pool);
    }
    uint64_t before = UINT64_MAX;
    for (ph_pool *pool; status == PH_OK && (pool = next_recording(memory, &before, stream));) {
        ph__mutex_lock(&pool->replay_lock);
        status = mark_before(pool, stream);
        ph__mutex_unlock(&pool->replay_lock);
        unkeep_pool(memory, pool);
    }
    return status;
}
