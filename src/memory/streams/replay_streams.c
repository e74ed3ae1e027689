/* SPDX-License-Identifier: MIT */
/* memory/streams/replay_streams.c: which streams replays may be running on: those of each pool's
 * last replay, and those that pools which have gone were last replayed on. Memory that a replay may
 * read leaves behind them. */
#include "memory/streams/replay_streams.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"
#include "memory/streams/events.h"

static void list_stream(ph__memory *memory, ph_stream *stream)
{
    ph__stream_replays *replays = &stream->replays;
    if (replays->listed)
        return;
    replays->listed = true;
    replays->previous = NULL;
    replays->next = memory->replayed;
    if (replays->next)
        replays->next->replays.previous = stream;
    memory->replayed = ph__stream_retain(stream);
}

/* True: the stream has left the list, and the reference of that is to be released. */
static bool unlist_stream(ph__memory *memory, ph_stream *stream)
{
    ph__stream_replays *replays = &stream->replays;
    if (!replays->listed || replays->first_pool || replays->in_left)
        return false;
    if (replays->previous)
        replays->previous->replays.next = replays->next;
    else
        memory->replayed = replays->next;
    if (replays->next)
        replays->next->replays.previous = replays->previous;
    replays->listed = false;
    return true;
}

static void unlink_pool(ph_pool *pool)
{
    ph__stream_replays *replays = &pool->last_replay->replays;
    if (pool->previous_there)
        pool->previous_there->next_there = pool->next_there;
    else
        replays->first_pool = pool->next_there;
    if (pool->next_there)
        pool->next_there->previous_there = pool->previous_there;
    else
        replays->last_pool = pool->previous_there;
    pool->previous_there = pool->next_there = NULL;
    replays->pool_count--;
}

static void link_first(ph_pool *pool)
{
    ph__stream_replays *replays = &pool->last_replay->replays;
    pool->behind = false;
    pool->next_there = replays->first_pool;
    if (pool->next_there)
        pool->next_there->previous_there = pool;
    else
        replays->last_pool = pool;
    replays->first_pool = pool;
    replays->pool_count++;
}

unsigned ph__pool_replayed_on(ph_pool *pool, ph_stream *stream, ph_stream **before)
{
    unsigned references = 0;
    *before = pool->last_replay;
    if (*before)
        unlink_pool(pool);
    if (*before != stream) {
        pool->last_replay = ph__stream_retain(stream);
        if (*before)
            references = 1;
    }
    list_stream(pool->memory, stream);
    link_first(pool);
    if (references > 0 && unlist_stream(pool->memory, *before))
        references++;
    return references;
}

void ph__pool_replay_marked(ph_pool *pool)
{
    ph__stream_replays *replays = &pool->last_replay->replays;
    pool->behind = true;
    if (replays->last_pool == pool)
        return;
    unlink_pool(pool);
    pool->previous_there = replays->last_pool;
    if (pool->previous_there)
        pool->previous_there->next_there = pool;
    else
        replays->first_pool = pool;
    replays->last_pool = pool;
    replays->pool_count++;
}

void ph__pool_leave_replay(ph_pool *pool)
{
    ph__memory *memory = pool->memory;
    ph_stream *stream = pool->last_replay;
    if (!stream)
        return;
    unlink_pool(pool);
    stream->replays.left = true;
    if (!stream->replays.in_left) {
        stream->replays.in_left = true;
        stream->replays.next_left = memory->left;
        memory->left = stream;
    }
    ph__set_slow_path(memory, PH__SLOW_RECLAIM, true);
}

/* Whether the replays of all pools that have gone so far are done. */
static bool are_replays_done(ph__memory *memory, ph_stream *stream, int *failure)
{
    ph__stream_replays *replays = &stream->replays;
    ph__memory_lock(memory);
    bool left = replays->left;
    ph__drv_event *event = replays->behind;
    replays->left = false;
    replays->behind = NULL;
    ph__spin_unlock(&memory->lock);
    if (left) {
        ph__mark_recycle(memory, event);
        event = ph__mark_stream(memory, stream, failure);
    }
    bool done = event && ph__mark_done(memory, event, false, failure);
    if (done) {
        ph__mark_recycle(memory, event);
        return true;
    }
    ph__memory_lock(memory);
    replays->behind = event;
    replays->left = replays->left || event == NULL;
    ph__spin_unlock(&memory->lock);
    return false;
}

void ph__left_process(ph__memory *memory, int *failure)
{
    ph__memory_lock(memory);
    ph_stream *stream = memory->left;
    memory->left = NULL;
    ph__spin_unlock(&memory->lock);
    while (stream) {
        ph_stream *next = stream->replays.next_left;
        bool done = are_replays_done(memory, stream, failure), gone = false;
        ph__memory_lock(memory);
        if (done && !stream->replays.left) {
            stream->replays.in_left = false;
            gone = unlist_stream(memory, stream);
        } else {
            stream->replays.next_left = memory->left;
            memory->left = stream;
            ph__set_slow_path(memory, PH__SLOW_RECLAIM, true);
        }
        ph__spin_unlock(&memory->lock);
        if (gone)
            ph__stream_release(stream);
        stream = next;
    }
}

void ph__streams_close(ph__memory *memory)
{
    while (memory->replayed) {
        ph_stream *stream = memory->replayed;
        memory->replayed = stream->replays.next;
        ph__mark_recycle(memory, stream->replays.behind);
        stream->replays = (ph__stream_replays){.listed = false};
        ph__stream_release(stream);
    }
    memory->left = NULL;
}
