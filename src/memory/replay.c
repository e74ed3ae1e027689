/* SPDX-License-Identifier: MIT */
/* memory/replay.c: the order of replays that share a pool, across streams, and their epochs. */
#include "memory/state.h"

/* Records the pool's event behind its last replay. The replay lock is held; the last stream is in no capture.
 */
static ph_status mark_last(ph_pool *pool, const char *call)
{
    ph__memory *memory = pool->memory;
    if (pool->replay_marked)
        return PH_OK;
    int result = PH__R_OK;
    if (!pool->replayed && !(pool->replayed = ph__mark_take(memory, &result)))
        return ph__driver_fail(result, "cuEventCreate", "%s: behind the last replay from the same pool",
                               call);
    result =
        memory->driver->event_record(pool->replayed, pool->last_replay->handle, PH__EVENT_RECORD_DEFAULT);
    if (result != PH__R_OK)
        return ph__driver_fail(result, "cuEventRecord", "%s: behind the last replay from the same pool",
                               call);
    pool->replay_marked = true;
    return PH_OK;
}

static ph_status wait_for_last(ph_pool *pool, ph_stream *stream)
{
    static const char call[] = "ph_graph_replay";
    if (!pool->last_replay || pool->last_replay == stream)
        return PH_OK;
    PH_TRY(mark_last(pool, call));
    int result =
        pool->memory->driver->stream_wait_event(stream->handle, pool->replayed, PH__EVENT_RECORD_DEFAULT);
    if (result != PH__R_OK)
        return ph__driver_fail(result, "cuStreamWaitEvent",
                               "%s: ordering it behind the last replay from the same pool", call);
    return PH_OK;
}

ph_status ph__pool_replay_begin(ph_pool *pool, ph_stream *stream)
{
    pthread_mutex_lock(&pool->replay_lock);
    ph_status status = wait_for_last(pool, stream);
    if (status != PH_OK)
        pthread_mutex_unlock(&pool->replay_lock);
    return status;
}

uint64_t ph__pool_replay_end(ph_pool *pool, ph_stream *stream, bool launched)
{
    ph__memory *memory = pool->memory;
    ph_stream *before = NULL;
    uint64_t epoch = 0;
    if (launched) {
        epoch = atomic_fetch_add(&pool->epoch, 1) + 1;
        pool->replay_marked = false;
        if (pool->last_replay != stream) {
            /* Others look at the stream under the hot lock alone. */
            ph__spin_lock(&memory->lock);
            before = pool->last_replay;
            pool->last_replay = ph__stream_retain(stream);
            ph__spin_unlock(&memory->lock);
        }
        /* Later, a capture with blocking streams could forbid records on the default stream. */
        if (stream->is_default) {
            ph_error saved;
            ph__error_save(&saved);
            if (mark_last(pool, "ph_graph_replay") != PH_OK)
                ph__error_restore(&saved);
        }
    }
    pthread_mutex_unlock(&pool->replay_lock);
    if (before)
        ph__stream_release(before);
    return epoch;
}

uint64_t ph__pool_epoch(const ph_pool *pool)
{
    return atomic_load(&((ph_pool *)(uintptr_t)pool)->epoch);
}

/* The next pool, after `after`, that was last replayed on the stream; kept. */
static ph_pool *next_replayed_on(ph__memory *memory, ph_pool *after, const ph_stream *stream)
{
    ph__spin_lock(&memory->lock);
    ph_pool *pool = after ? after->next : &memory->default_pool;
    while (pool && pool->last_replay != stream)
        pool = pool->next;
    if (pool)
        pool->keeps++;
    ph__spin_unlock(&memory->lock);
    return pool;
}

static void unkeep(ph__memory *memory, ph_pool *pool)
{
    ph_pool *dead = NULL;
    ph__spin_lock(&memory->lock);
    ph__pool_unkeep(pool, &dead);
    ph__spin_unlock(&memory->lock);
    ph__pool_bury(dead);
}

ph_status ph__replays_before_capture(ph__attachment *attachment, ph_stream *stream)
{
    ph__memory *memory = (ph__memory *)attachment;
    ph_status status = PH_OK;
    ph_pool *pool = next_replayed_on(memory, NULL, stream);
    while (pool) {
        pthread_mutex_lock(&pool->replay_lock);
        if (status == PH_OK && pool->last_replay == stream)
            status = mark_last(pool, "ph_graph_capture_begin");
        pthread_mutex_unlock(&pool->replay_lock);
        ph_pool *next = status == PH_OK ? next_replayed_on(memory, pool, stream) : NULL;
        unkeep(memory, pool);
        pool = next;
    }
    return status;
}
