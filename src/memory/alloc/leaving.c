/* SPDX-License-Identifier: MIT */
/* memory/alloc/leaving.c: which segments and pinned blocks may leave, and those that have left
 * their heaps and wait for the work that may still use them. What is to be looked at is noted
 * where it becomes so: nobody looks through all that there is. */
#include "base/log.h"
#include "memory/state.h"

/* Memory that has left its heap and waits; or allocations of another device, which are held until
 * the work that is waited for is done. One thread at a time, under `settling`. */
struct ph__batch {
    ph__waiter waiter; /* first */
    ph__batch *previous, *next;
    ph__mseg *segments;
    ph__pinned *pinned;
    ph_device *elsewhere;     /* retained; NULL: none */
    ph__map held;             /* of it: generation -> base */
    PH__VEC(ph__use) streams; /* that it waits for */
};

/* ---- what is due ---- */
void ph__pool_due(ph_pool *pool)
{
    ph__memory *memory = pool->memory;
    ph__see(memory, PH__SEE_RETIRE, true);
    if (pool->due)
        return;
    pool->due = true;
    pool->previous_due = NULL;
    pool->next_due = memory->due_pools;
    if (pool->next_due)
        pool->next_due->previous_due = pool;
    memory->due_pools = pool;
}

void ph__pool_not_due(ph_pool *pool)
{
    if (!pool->due)
        return;
    pool->due = false;
    if (pool->previous_due)
        pool->previous_due->next_due = pool->next_due;
    else
        pool->memory->due_pools = pool->next_due;
    if (pool->next_due)
        pool->next_due->previous_due = pool->previous_due;
}

void ph__mseg_due(ph__memory *memory, ph__mseg *mseg)
{
    ph__see(memory, PH__SEE_RETIRE, true);
    if (mseg->due)
        return;
    mseg->due = true;
    mseg->previous_due = NULL;
    mseg->next_due = memory->due_segments;
    if (mseg->next_due)
        mseg->next_due->previous_due = mseg;
    memory->due_segments = mseg;
}

static void not_due(ph__memory *memory, ph__mseg *mseg)
{
    if (!mseg->due)
        return;
    mseg->due = false;
    if (mseg->previous_due)
        mseg->previous_due->next_due = mseg->next_due;
    else
        memory->due_segments = mseg->next_due;
    if (mseg->next_due)
        mseg->next_due->previous_due = mseg->previous_due;
}

void ph__mseg_link(ph__mseg *mseg)
{
    ph__mseg **first = &mseg->stream->replays.segments;
    mseg->previous_there = NULL;
    mseg->next_there = *first;
    if (*first)
        (*first)->previous_there = mseg;
    *first = mseg;
}

void ph__mseg_unlink(ph__memory *memory, ph__mseg *mseg)
{
    not_due(memory, mseg);
    if (mseg->previous_there)
        mseg->previous_there->next_there = mseg->next_there;
    else
        mseg->stream->replays.segments = mseg->next_there;
    if (mseg->next_there)
        mseg->next_there->previous_there = mseg->previous_there;
}

void ph__stream_segments_due(ph__memory *memory, ph_stream *stream)
{
    for (ph__mseg *mseg = stream->replays.segments; mseg; mseg = mseg->next_there)
        if (mseg->segment->used_blocks == 0)
            ph__mseg_due(memory, mseg);
}

/* ---- taking it out of the heaps ---- lock held */
/* Whether a free segment may leave: replays of a live graph write what captures were given. */
static bool may_leave(const ph_pool *pool, const ph__mseg *mseg, ph__trim what,
                      const ph_pool *extra)
{
    if (mseg->segment->used_blocks > 0)
        return false;
    if (pool->use_count == 0)
        return true;
    if (mseg->captured && (pool->graphs > 0 || pool->recording == PH__IN_CAPTURE))
        return false;
    return atomic_load_explicit(&mseg->stream->destroyed, memory_order_relaxed) || pool == extra ||
           pool->trim_wanted || (what == PH__TRIM_CACHED && ph__pool_is_default(pool));
}

static void take_segment(ph__batch *batch, ph__memory *memory, ph__mseg *mseg)
{
    ph__mseg_unlink(memory, mseg);
    (void)ph__range_map_remove(&memory->segments, mseg->address);
    ph__heap_remove_segment(mseg->pool->heap, mseg->segment);
    mseg->segment = NULL;
    mseg->next = batch->segments;
    batch->segments = mseg;
}

static void take_pinned(ph__batch *batch, ph_pool *pool)
{
    ph__pinned *list = ph__pinned_collect(pool), **last = &list;
    while (*last)
        last = &(*last)->next;
    *last = batch->pinned;
    batch->pinned = list;
}

static void look_at_pool(ph__batch *batch, ph__memory *memory, ph_pool *pool, ph__trim what,
                         ph_pool *extra)
{
    ph__pool_not_due(pool);
    if (pool->graphs > 0 || pool->recording != PH__IDLE)
        pool->trim_wanted = false;
    for (ph__segment *segment = ph__heap_first_segment(pool->heap), *next; segment;
         segment = next) {
        ph__mseg *mseg = segment->user;
        next = segment->next;
        ph__step(memory);
        if (may_leave(pool, mseg, what, extra))
            take_segment(batch, memory, mseg);
    }
    if (pool->use_count == 0 || pool == extra || pool->trim_wanted ||
        (what == PH__TRIM_CACHED && ph__pool_is_default(pool)))
        take_pinned(batch, pool);
    pool->trim_wanted = false;
}

static void look(ph__batch *batch, ph__memory *memory, ph__trim what, ph_pool *extra)
{
    ph__see(memory, PH__SEE_RETIRE, false);
    if (what == PH__TRIM_CACHED)
        look_at_pool(batch, memory, &memory->default_pool, what, extra);
    if (extra)
        look_at_pool(batch, memory, extra, what, extra);
    while (memory->due_pools)
        look_at_pool(batch, memory, memory->due_pools, what, extra);
    while (memory->due_segments) {
        ph__mseg *mseg = memory->due_segments;
        ph__step(memory);
        if (may_leave(mseg->pool, mseg, what, extra))
            take_segment(batch, memory, mseg);
        else
            not_due(memory, mseg);
    }
}

/* ---- waiting ---- settling held */
/* Once in a round. */
static bool add_stream(ph__batch *batch, ph_stream *stream, uint64_t round)
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
static bool list_streams(ph__memory *memory, ph__batch *batch)
{
    uint64_t round = ++memory->round;
    bool ok = true;
    for (const ph__mseg *mseg = batch->segments; mseg && ok; mseg = mseg->next)
        ok = add_stream(batch, mseg->stream, round);
    ph__spin_lock(&memory->lock);
    for (ph_stream *stream = memory->replayed; stream && ok; stream = stream->replays.next)
        ok = add_stream(batch, stream, round);
    ph__spin_unlock(&memory->lock);
    return ok;
}

static void drop_streams(ph__memory *memory, ph__batch *batch)
{
    for (size_t i = 0; i < batch->streams.count; i++) {
        ph__mark_recycle(memory, batch->streams.at[i].event);
        ph__stream_release(batch->streams.at[i].stream);
    }
    ph__vec_free(&batch->streams);
}

static void link_batch(ph__memory *memory, ph__batch *batch)
{
    batch->previous = NULL;
    batch->next = memory->batches;
    if (batch->next)
        batch->next->previous = batch;
    memory->batches = batch;
}

static void unlink_batch(ph__memory *memory, ph__batch *batch)
{
    if (batch->previous)
        batch->previous->next = batch->next;
    else
        memory->batches = batch->next;
    if (batch->next)
        batch->next->previous = batch->previous;
}

static void wait_for(ph__memory *memory, ph__batch *batch, int *failure)
{
    batch->waiter.leaves = true;
    link_batch(memory, batch);
    ph__waits_begin(memory, &batch->waiter, batch->streams.at, batch->streams.count, failure);
}

/* What is held elsewhere knows its streams; of the others it is found out. */
static void begin_waiting(ph__memory *memory, int *failure, ph__batch **done)
{
    ph__spin_lock(&memory->lock);
    ph__batch *let_go = memory->let_go;
    memory->let_go = NULL;
    ph__spin_unlock(&memory->lock);
    while (let_go) {
        ph__batch *next = let_go->next;
        wait_for(memory, let_go, failure);
        let_go = next;
    }
    while (memory->unlisted) {
        ph__batch *batch = memory->unlisted;
        if (!list_streams(memory, batch)) {
            drop_streams(memory, batch);
            ph__spin_lock(&memory->lock);
            ph__see(memory, PH__SEE_RETIRE, true);
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
        wait_for(memory, batch, failure);
    }
}

bool ph__leave(ph__memory *memory, ph__trim what, ph_pool *extra, int *failure, ph__batch **done)
{
    ph__batch *batch = ph__calloc(1, sizeof *batch);
    ph__spin_lock(&memory->lock);
    if (batch)
        look(batch, memory, what, extra);
    else
        ph__see(memory, PH__SEE_RETIRE, true);
    ph__spin_unlock(&memory->lock);
    if (batch && (batch->segments || batch->pinned)) {
        batch->next = memory->unlisted;
        memory->unlisted = batch;
    } else {
        ph__free(batch);
    }
    begin_waiting(memory, failure, done);
    return batch != NULL;
}

void ph__batch_done(ph__memory *memory, ph__waiter *waiter, ph__batch **done)
{
    ph__batch *batch = (ph__batch *)waiter;
    unlink_batch(memory, batch);
    drop_streams(memory, batch);
    batch->next = *done;
    *done = batch;
}

/* ---- what is held of other devices ---- */
static void let_go_now(ph_device *device, ph__map *held)
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

static ph__batch *create_let_go(ph_device *device, const ph__map *held, ph_stream *const *streams,
                                size_t count)
{
    ph__batch *batch = ph__calloc(1, sizeof *batch);
    if (!batch || !ph__vec_reserve(&batch->streams, count)) {
        ph__free(batch);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        batch->streams.at[i] = (ph__use){.stream = ph__stream_retain(streams[i])};
    batch->streams.count = count;
    batch->elsewhere = ph_device_retain(device);
    batch->held = *held;
    return batch;
}

/* Without host memory the work is waited for. */
static bool wait_at_once(const ph__memory *memory, ph_stream *const *streams, size_t count)
{
    bool may = !ph__capturing(memory);
    for (size_t i = 0; i < count && may; i++)
        may = ph__stream_capture_id(streams[i]) == 0;
    for (size_t i = 0; i < count && may; i++)
        ph__stream_wait(streams[i]);
    return may;
}

void ph__memory_let_go_elsewhere(ph_device *own, ph_device *device, ph__map *held,
                                 ph_stream *const *streams, size_t count)
{
    ph__memory *memory = ph__memory_of(own);
    ph__batch *batch = count > 0 ? create_let_go(device, held, streams, count) : NULL;
    if (batch) {
        *held = (ph__map){0};
        ph__spin_lock(&memory->lock);
        batch->next = memory->let_go;
        memory->let_go = batch;
        ph__see(memory, PH__SEE_RETIRE, true);
        ph__spin_unlock(&memory->lock);
        ph__memory_process(memory);
        return;
    }
    if (count == 0 || wait_at_once(memory, streams, count)) {
        let_go_now(device, held);
        return;
    }
    (void)ph_device_retain(device); /* stays open: replays may write its memory */
    ph__map_free(held);
    PH__LOG_ONCE(PH_LOG_WARNING,
                 "no host memory to remember the replays that use memory of device %s, which their "
                 "graph lets go of; the memory stays taken until the process ends; said once",
                 device->name);
}

void ph__give_back(ph__memory *memory, ph__batch *batch)
{
    while (batch) {
        ph__batch *next = batch->next;
        for (ph__mseg *mseg = batch->segments, *rest; mseg; mseg = rest) {
            rest = mseg->next;
            ph__mseg_destroy(memory, mseg);
        }
        for (ph__pinned *pinned = batch->pinned, *rest; pinned; pinned = rest) {
            rest = pinned->next;
            ph__pinned_destroy(memory, pinned);
        }
        if (batch->elsewhere)
            let_go_now(batch->elsewhere, &batch->held);
        ph_device_release(batch->elsewhere);
        ph__free(batch);
        batch = next;
    }
}

void ph__batches_destroy(ph__memory *memory)
{
    ph__batch *done = NULL;
    while (memory->batches)
        ph__batch_done(memory, &memory->batches->waiter, &done);
    while (memory->unlisted) {
        ph__batch *batch = memory->unlisted;
        memory->unlisted = batch->next;
        batch->next = done;
        done = batch;
    }
    for (ph__batch *batch; (batch = memory->let_go) != NULL; done = batch) {
        memory->let_go = batch->next;
        drop_streams(memory, batch);
        batch->next = done;
    }
    ph__give_back(memory, done);
}
