/* SPDX-License-Identifier: MIT */
/* memory/reclaim/batches.c: memory that has left its heaps and waits for the work that may still
 * use it. */
#include "memory/reclaim/batches.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/vec.h"
#include "memory/observe/hold.h"
#include "memory/reclaim/pinned_memory.h"
#include "memory/reclaim/segments.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include "memory/streams/events.h"
#include "memory/streams/waits.h"

/* ---- waiting ---- reclaim_lock held */
/* Once in a round. */
static bool add_stream(ph__leaving_batch *batch, ph_stream *stream, uint64_t round)
{
    const ph__use use = {.stream = stream};
    if (stream->replays.round == round)
        return true;
    if (!ph__vec_push(&batch->streams, use))
        return false;
    (void)ph__stream_retain(stream);
    stream->replays.round = round;
    return true;
}

/* The streams whose work may use the batch: those of its segments, and those that replays may be
 * running on, which may read blocks of any pool. */
static bool list_streams(ph__memory *memory, ph__leaving_batch *batch)
{
    uint64_t round = ++memory->round;
    bool ok = true;
    for (const ph__mseg *mseg = batch->segments; mseg && ok; mseg = mseg->next)
        ok = add_stream(batch, mseg->stream, round);
    ph__memory_lock(memory);
    for (ph_stream *stream = memory->replayed; stream && ok; stream = stream->replays.next)
        ok = add_stream(batch, stream, round);
    ph__spin_unlock(&memory->lock);
    return ok;
}

static void drop_streams(ph__memory *memory, ph__leaving_batch *batch)
{
    for (size_t i = 0; i < batch->streams.count; i++) {
        ph__mark_recycle(memory, batch->streams.at[i].event);
        ph__stream_release(batch->streams.at[i].stream);
    }
    ph__vec_free(&batch->streams);
}

static void link_batch(ph__memory *memory, ph__leaving_batch *batch)
{
    batch->previous = NULL;
    batch->next = memory->batches;
    if (batch->next)
        batch->next->previous = batch;
    memory->batches = batch;
}

static void unlink_batch(ph__memory *memory, ph__leaving_batch *batch)
{
    if (batch->previous)
        batch->previous->next = batch->next;
    else
        memory->batches = batch->next;
    if (batch->next)
        batch->next->previous = batch->previous;
}

static void begin_wait(ph__memory *memory, ph__leaving_batch *batch, int *failure)
{
    batch->waiter.finish = ph__batch_done;
    link_batch(memory, batch);
    ph__waits_begin(memory, &batch->waiter, batch->streams.at, batch->streams.count, failure);
}

void ph__batches_wait(ph__memory *memory, int *failure, ph__leaving_batch **done)
{
    ph__memory_lock(memory);
    ph__leaving_batch *let_go = memory->let_go;
    memory->let_go = NULL;
    ph__spin_unlock(&memory->lock);
    while (let_go) {
        ph__leaving_batch *next = let_go->next;
        begin_wait(memory, let_go, failure);
        let_go = next;
    }
    while (memory->unlisted) {
        ph__leaving_batch *batch = memory->unlisted;
        if (!list_streams(memory, batch)) {
            drop_streams(memory, batch);
            ph__memory_lock(memory);
            ph__set_slow_path(memory, PH__SLOW_RECLAIM, true);
            ph__spin_unlock(&memory->lock);
            *failure = PH__R_OUT_OF_MEMORY;
            return;
        }
        memory->unlisted = batch->next;
        if (batch->streams.count == 0) {
            batch->next = *done;
            *done = batch;
            continue;
        }
        begin_wait(memory, batch, failure);
    }
}

void ph__batch_done(ph__memory *memory, ph__waiter *waiter, ph__leaving_batch **done)
{
    ph__leaving_batch *batch = (ph__leaving_batch *)waiter;
    unlink_batch(memory, batch);
    drop_streams(memory, batch);
    batch->next = *done;
    *done = batch;
}

/* ---- what is held of other devices ---- */
void ph__held_release(ph_device *device, ph__map *held)
{
    ph__born born = {.device = device};
    size_t cursor = 0;
    void *base;
    while (ph__map_next(held, &cursor, &born.generation, &base)) {
        born.base = base;
        ph__memory_let_go(&born, NULL, 0);
    }
    ph__map_free(held);
}

void ph__give_back(ph__memory *memory, ph__leaving_batch *batch, bool keep_pinned)
{
    while (batch) {
        ph__leaving_batch *next = batch->next;
        for (ph__mseg *mseg = batch->segments, *rest; mseg; mseg = rest) {
            rest = mseg->next;
            ph__mseg_destroy(memory, mseg);
        }
        for (ph__pinned *pinned = batch->pinned, *rest; pinned; pinned = rest) {
            rest = pinned->next;
            if (keep_pinned)
                ph__pinned_cache(memory, pinned);
            else
                ph__pinned_destroy(memory, pinned);
        }
        if (batch->elsewhere)
            ph__held_release(batch->elsewhere, &batch->held);
        ph_device_release(batch->elsewhere);
        ph__free(batch);
        batch = next;
    }
}

void ph__batches_destroy(ph__memory *memory)
{
    ph__leaving_batch *done = NULL;
    while (memory->batches)
        ph__batch_done(memory, &memory->batches->waiter, &done);
    while (memory->unlisted) {
        ph__leaving_batch *batch = memory->unlisted;
        memory->unlisted = batch->next;
        batch->next = done;
        done = batch;
    }
    for (ph__leaving_batch *batch; (batch = memory->let_go) != NULL; done = batch) {
        memory->let_go = batch->next;
        drop_streams(memory, batch);
        batch->next = done;
    }
    ph__give_back(memory, done, false);
}
