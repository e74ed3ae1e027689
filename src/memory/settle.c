/* SPDX-License-Identifier: MIT */
/* memory/settle.c: giving memory back to the device, once all work that used it is done. */
#include "memory/state.h"

/* Memory that has left its heap and waits for events. One thread at a time, under `settling`. */
struct ph__batch {
    ph__batch *next;
    ph__mseg *segments;
    ph__pinned *pinned;
    bool marked; /* the events stand behind all work that may use it */
    PH__VEC(ph__drv_event *) marks;
};

typedef PH__VEC(ph_stream *) stream_list;

/* Whether a free segment may leave: replays of a live graph write what captures were given. */
static bool may_leave(const ph_pool *pool, const ph__mseg *mseg, ph__trim what, const ph_pool *extra)
{
    if (pool->use_count == 0)
        return true;
    if (mseg->captured && (pool->graphs > 0 || pool->recording == PH__IN_CAPTURE))
        return false;
    return atomic_load_explicit(&mseg->stream->destroyed, memory_order_relaxed) || pool == extra ||
           pool->trim_wanted || (what == PH__TRIM_CACHED && ph__pool_is_default(pool));
}

static void collect_pool(ph__batch *batch, ph__memory *memory, ph_pool *pool, ph__trim what, ph_pool *extra)
{
    if (pool->graphs > 0 || pool->recording != PH__IDLE)
        pool->trim_wanted = false;
    for (ph__segment *segment = ph__heap_first_segment(pool->heap), *next; segment; segment = next) {
        ph__mseg *mseg = segment->user;
        next = segment->next;
        if (segment->used_blocks > 0 || !may_leave(pool, mseg, what, extra))
            continue;
        (void)ph__range_map_remove(&memory->segments, segment->address);
        ph__heap_remove_segment(pool->heap, segment);
        mseg->next = batch->segments;
        batch->segments = mseg;
    }
    if (pool->use_count == 0 || pool == extra || pool->trim_wanted ||
        (what == PH__TRIM_CACHED && ph__pool_is_default(pool))) {
        ph__pinned *list = ph__pinned_collect(pool), **last = &list;
        while (*last)
            last = &(*last)->next;
        *last = batch->pinned;
        batch->pinned = list;
    }
    pool->trim_wanted = false;
}

/* Takes what may leave out of the heaps, as one batch; false without host memory for it. */
static bool collect(ph__memory *memory, ph__trim what, ph_pool *extra)
{
    ph__batch *batch = ph__calloc(1, sizeof *batch);
    ph__spin_lock(&memory->lock);
    ph__see(memory, PH__SEE_RETIRE, batch == NULL);
    for (ph_pool *pool = &memory->default_pool; batch && pool; pool = pool->next)
        collect_pool(batch, memory, pool, what, extra);
    ph__spin_unlock(&memory->lock);
    if (batch && !batch->segments && !batch->pinned) {
        ph__free(batch);
    } else if (batch) {
        batch->next = memory->batches;
        memory->batches = batch;
    }
    return batch != NULL;
}

/* Once in a round. */
static bool add_stream(stream_list *list, ph_stream *stream, uint64_t round)
{
    if (stream->replays.round == round)
        return true;
    if (!ph__vec_push(list, stream))
        return false;
    (void)ph__stream_retain(stream);
    stream->replays.round = round;
    return true;
}

/* The streams whose work may use the batch: those of its segments, and those that replays may be running on, which may
 * read blocks of any pool. */
static bool list_streams(stream_list *list, ph__memory *memory, const ph__batch *batch)
{
    uint64_t round = ++memory->round;
    bool ok = true;
    for (const ph__mseg *mseg = batch->segments; mseg && ok; mseg = mseg->next)
        ok = add_stream(list, mseg->stream, round);
    ph__spin_lock(&memory->lock);
    for (ph_stream *stream = memory->replayed; stream && ok; stream = stream->replays.next)
        ok = add_stream(list, stream, round);
    ph__spin_unlock(&memory->lock);
    return ok;
}

static void drop_marks(ph__memory *memory, ph__batch *batch)
{
    for (size_t i = 0; i < batch->marks.count; i++)
        ph__mark_recycle(memory, batch->marks.at[i]);
    batch->marks.count = 0;
}

static void mark(ph__memory *memory, ph__batch *batch, int *failure)
{
    stream_list streams = {0};
    bool ok = list_streams(&streams, memory, batch) && ph__vec_reserve(&batch->marks, streams.count);
    if (!ok)
        *failure = PH__R_OUT_OF_MEMORY;
    for (size_t i = 0; i < streams.count; i++) {
        ph__drv_event *event = ok ? ph__mark_stream(memory, streams.at[i], failure) : NULL;
        if (event)
            batch->marks.at[batch->marks.count++] = event;
        ok = event != NULL;
        ph__stream_release(streams.at[i]);
    }
    ph__vec_free(&streams);
    batch->marked = ok;
    if (!ok)
        drop_marks(memory, batch);
}

static bool is_done(ph__memory *memory, ph__batch *batch, bool wait, int *failure)
{
    if (!batch->marked)
        mark(memory, batch, failure);
    if (!batch->marked)
        return false;
    while (batch->marks.count > 0) {
        ph__drv_event *event = batch->marks.at[batch->marks.count - 1];
        if (!ph__mark_done(memory, event, wait, failure))
            return false;
        batch->marks.count--;
        ph__mark_recycle(memory, event);
    }
    return true;
}

/* Unlinks the batches that nothing uses any more. */
static ph__batch *take_done(ph__memory *memory, bool wait, int *failure)
{
    ph__batch *done = NULL;
    for (ph__batch **at = &memory->batches; *at;) {
        ph__batch *batch = *at;
        if (is_done(memory, batch, wait, failure)) {
            *at = batch->next;
            batch->next = done;
            done = batch;
        } else {
            at = &batch->next;
        }
    }
    if (memory->batches) {
        ph__spin_lock(&memory->lock);
        ph__see(memory, PH__SEE_RETIRE, true);
        ph__spin_unlock(&memory->lock);
    }
    return done;
}

static void give_back(ph__memory *memory, ph__batch *batch)
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
        ph__vec_free(&batch->marks);
        ph__free(batch);
        batch = next;
    }
}

/* settling held; lets it go. */
static void settle(ph__memory *memory)
{
    ph__batch *done = NULL;
    int later = PH__R_OK; /* what fails here is tried again at the next chance */
    if (ph__sees(memory, PH__SEE_RETIRE))
        ph__held_process(memory);
    if (ph__sees(memory, PH__SEE_DEFERRED))
        ph__deferred_process(memory, 0);
    if (ph__sees(memory, PH__SEE_PENDING))
        ph__pending_process(memory, false, &later);
    if (ph__sees(memory, PH__SEE_RETIRE)) {
        (void)collect(memory, PH__TRIM_ABANDONED, NULL);
        done = take_done(memory, false, &later);
        ph__left_process(memory, &later);
    }
    pthread_mutex_unlock(&memory->settling);
    give_back(memory, done);
}

static bool may_settle(const ph__memory *memory)
{
    return ph__sees(memory, PH__SEE_PENDING | PH__SEE_DEFERRED | PH__SEE_RETIRE) && !ph__capturing(memory);
}

void ph__memory_process(ph__memory *memory)
{
    if (may_settle(memory) && pthread_mutex_trylock(&memory->settling) == 0)
        settle(memory);
}

bool ph__memory_process_all(ph__memory *memory)
{
    if (!may_settle(memory))
        return false;
    pthread_mutex_lock(&memory->settling);
    settle(memory);
    return true;
}

int ph__memory_trim_now(ph__memory *memory, ph__trim what, ph_pool *extra)
{
    int failure = PH__R_OK;
    pthread_mutex_lock(&memory->settling);
    ph__held_process(memory);
    ph__deferred_process(memory, 0);
    ph__pending_process(memory, true, &failure);
    if (!collect(memory, what, extra))
        failure = PH__R_OUT_OF_MEMORY;
    ph__batch *done = take_done(memory, true, &failure);
    ph__left_process(memory, &failure);
    pthread_mutex_unlock(&memory->settling);
    give_back(memory, done);
    return failure;
}

static void sweep_now(ph__deferred *item)
{
    ph__memory *memory = (ph__memory *)((char *)item - offsetof(ph__memory, sweep));
    ph__spin_lock(&memory->lock);
    bool cached = memory->sweep_cached;
    memory->sweep_deferred = memory->sweep_cached = false;
    ph__spin_unlock(&memory->lock);
    if (cached)
        (void)ph__memory_trim_now(memory, PH__TRIM_CACHED, NULL);
    else
        ph__memory_process(memory);
}

int ph__memory_sweep(ph__memory *memory, bool cached)
{
    if (!ph__capturing(memory)) {
        if (cached)
            return ph__memory_trim_now(memory, PH__TRIM_CACHED, NULL);
        ph__memory_process(memory);
        return PH__R_OK;
    }
    ph__spin_lock(&memory->lock);
    bool queued = memory->sweep_deferred;
    memory->sweep_deferred = true;
    memory->sweep_cached = memory->sweep_cached || cached;
    if (!queued)
        memory->sweep.fn = sweep_now;
    ph__spin_unlock(&memory->lock);
    if (!queued)
        ph__device_defer(memory->device, &memory->sweep);
    return PH__R_OK;
}

ph_status ph__trim_status(int result, const char *call)
{
    return ph__driver_fail(
        result, PH__NAME_EVENT_SYNCHRONIZE,
        "%s: waiting for the work that used the memory; what is left goes back at a later chance", call);
}

ph_status ph_memory_trim(ph_device *device)
{
    if (!device)
        return ph__fail_null("ph_memory_trim", "device");
    PH_TRY(ph__device_check(device, "ph_memory_trim"));
    ph__memory *memory = ph__memory_of(device);
    return memory ? ph__trim_status(ph__memory_sweep(memory, true), "ph_memory_trim") : PH_OK;
}

void ph__batches_destroy(ph__memory *memory)
{
    for (ph__batch *batch = memory->batches; batch; batch = batch->next)
        drop_marks(memory, batch);
    give_back(memory, memory->batches);
    memory->batches = NULL;
}
