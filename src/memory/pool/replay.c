/* SPDX-License-Identifier: MIT */
/* memory/pool/replay.c: the order of replays that share a pool, across streams and behind eager
 * work on its memory, and their epochs. */
#include "memory/pool/replay.h"
#include "base/vec.h"
#include "device/handles/captures.h"
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

/* ---- behind ordinary work ---- */
/* Recorded into a capture, or on the default stream beside a blocking one, the event would be a
 * part of that, or its end. capture_lock held. */
static bool may_record(const ph_stream *stream)
{
    const ph_device *device = stream->device;
    for (size_t i = 0; stream->is_default && i < device->captures.count; i++)
        if (atomic_load(&device->captures.at[i]->has_blocking))
            return false;
    return ph__stream_capture_id_locked(stream) == 0;
}

/* *event stays NULL where none may be recorded. */
static ph_status record_end(ph__drv_event **event, ph__memory *memory, const ph_stream *stream,
                            const char *call)
{
    int result = PH__R_OK;
    bool recorded = false;
    ph__drv_event *made = ph__mark_acquire(memory, &result);
    *event = NULL;
    if (!made)
        return ph__driver_fail(result, PH__NAME_EVENT_CREATE, "%s: behind the stream's work so far",
                               call);
    pthread_mutex_lock(&stream->device->capture_lock);
    if (may_record(stream)) {
        result = memory->driver->event_record(made, stream->handle, PH__EVENT_RECORD_DEFAULT);
        recorded = result == PH__R_OK;
    }
    pthread_mutex_unlock(&stream->device->capture_lock);
    if (recorded)
        *event = made;
    else
        ph__mark_recycle(memory, made);
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_EVENT_RECORD,
                                                "%s: behind the stream's work so far", call);
}

/* Drops the stream's note, and those of work that is done. */
static void drop_notes(ph_pool *pool, const ph_stream *stream)
{
    int unused = PH__R_OK;
    for (size_t i = pool->before.count; i-- > 0;) {
        const ph__mark *note = &pool->before.at[i];
        if (note->stream == stream->id ||
            (note->event && ph__mark_done(pool->memory, note->event, false, &unused))) {
            ph__mark_recycle(pool->memory, note->event);
            pool->before.at[i] = pool->before.at[--pool->before.count];
        }
    }
}

/* Notes where the stream's ordinary work ends: replays of what is captured now, or of the memory
 * that the work used, come behind it. One note for each stream. A note without an event is of the
 * default stream, which exists as long as the pool. The replay lock is held. */
static ph_status mark_before(ph_pool *pool, const ph_stream *stream, const char *call)
{
    ph__drv_event *event;
    if (!ph__vec_reserve(&pool->before, 1))
        return ph__fail_host_memory(call, "the order of replays");
    PH_TRY(record_end(&event, pool->memory, stream, call));
    if (!event && !stream->is_default)
        return PH_OK;
    drop_notes(pool, stream);
    pool->before.at[pool->before.count++] = (ph__mark){stream->id, event};
    return PH_OK;
}

/* Notes that could not be marked when they were made. */
static ph_status mark_notes(ph_pool *pool, const char *call)
{
    for (size_t i = 0; i < pool->before.count; i++)
        if (!pool->before.at[i].event)
            return mark_before(pool, &pool->memory->device->default_stream, call);
    return PH_OK;
}

static ph_status wait_for_note(ph_pool *pool, ph_stream *stream, const ph__mark *note,
                               const char *call)
{
    if (note->stream == stream->id)
        return PH_OK;
    if (note->event)
        return wait_for_event(pool, stream, note->event, call);
    return ph__fail_native(
        PH_ERROR_CAPTURE, PH__R_CAPTURE_IMPLICIT, PH__NAME_EVENT_RECORD,
        "%s: work on the default stream used memory of the pool, and nothing can be ordered behind "
        "it while a capture with a blocking stream is open; that capture was not touched; replay "
        "after its end, or free such memory before it begins",
        call);
}

ph_status ph__pool_replay_begin(ph_pool *pool, ph_stream *stream)
{
    static const char call[] = "ph_graph_replay";
    ph__mutex_lock(&pool->replay_lock);
    ph_status status = wait_for_last(pool, stream, call);
    if (status == PH_OK)
        status = mark_notes(pool, call);
    for (size_t i = 0; i < pool->before.count && status == PH_OK; i++)
        status = wait_for_note(pool, stream, &pool->before.at[i], call);
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

/* Later, the last replay's own mark comes behind the work, too, where it is not made yet. */
bool ph__replays_behind_use(ph_pool *pool, ph_stream *stream)
{
    ph_error before;
    ph_status status = PH_OK;
    ph__error_save(&before);
    ph__mutex_lock(&pool->replay_lock);
    if (pool->last_replay != stream || pool->replay_marked)
        status = mark_before(pool, stream, "ph_free");
    ph__mutex_unlock(&pool->replay_lock);
    if (status != PH_OK)
        ph__error_restore(&before);
    return status == PH_OK;
}

/* ---- before a stream captures ---- */

/* A capture into the pool may be given memory that the stream's ordinary work has used. Lock
 * held. */
static bool captures_memory_of(const ph_pool *pool, const ph_stream *stream)
{
    ph__step(pool->memory);
    return ph__heap_has_stream(pool->heap, stream->id);
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
        status = mark_before(pool, stream, "ph_graph_capture_begin");
        ph__mutex_unlock(&pool->replay_lock);
        unkeep_pool(memory, pool);
    }
    return status;
}
