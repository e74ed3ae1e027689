/* SPDX-License-Identifier: MIT */
/* memory/reclaim/leaving.c: which segments and pinned blocks may leave. A segment that
 * may leave is noted where it becomes so: nobody searches all of them. */
#include "memory/reclaim/leaving.h"
#include "base/alloc.h"
#include "base/range_map.h"
#include "memory/block/block.h"
#include "memory/block/block_heap.h"
#include "memory/reclaim/batches.h"
#include "memory/state/due.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/pinned_lists.h"
#include "memory/state/pool_state.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"

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

static void collect_segment(ph__leaving_batch *batch, ph__memory *memory, ph__mseg *mseg)
{
    ph__mseg_unlink(memory, mseg);
    (void)ph__range_map_remove(&memory->segments, mseg->address);
    ph__heap_remove_segment(mseg->pool->heap, mseg->segment);
    mseg->segment = NULL;
    mseg->next = batch->segments;
    batch->segments = mseg;
}

static void collect_pinned(ph__leaving_batch *batch, ph_pool *pool)
{
    ph__pinned *list = ph__pinned_collect(pool), **last = &list;
    while (*last)
        last = &(*last)->next;
    *last = batch->pinned;
    batch->pinned = list;
}

static void collect_from_pool(ph__leaving_batch *batch, ph__memory *memory, ph_pool *pool,
                              ph__trim what, ph_pool *extra)
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
            collect_segment(batch, memory, mseg);
    }
    if (pool->use_count == 0 || pool == extra || pool->trim_wanted ||
        (what == PH__TRIM_CACHED && ph__pool_is_default(pool)))
        collect_pinned(batch, pool);
    pool->trim_wanted = false;
}

static void collect_due(ph__leaving_batch *batch, ph__memory *memory, ph__trim what, ph_pool *extra)
{
    ph__set_slow_path(memory, PH__SLOW_RECLAIM, false);
    if (what == PH__TRIM_CACHED)
        collect_from_pool(batch, memory, &memory->default_pool, what, extra);
    if (extra)
        collect_from_pool(batch, memory, extra, what, extra);
    while (memory->due_pools)
        collect_from_pool(batch, memory, memory->due_pools, what, extra);
    while (memory->due_segments) {
        ph__mseg *mseg = memory->due_segments;
        ph__step(memory);
        if (may_leave(mseg->pool, mseg, what, extra))
            collect_segment(batch, memory, mseg);
        else
            ph__mseg_not_due(memory, mseg);
    }
}

bool ph__leave(ph__memory *memory, ph__trim what, ph_pool *extra, int *failure,
               ph__leaving_batch **done)
{
    ph__leaving_batch *batch = ph__calloc(1, sizeof *batch);
    ph__memory_lock(memory);
    if (batch)
        collect_due(batch, memory, what, extra);
    else
        ph__set_slow_path(memory, PH__SLOW_RECLAIM, true);
    ph__spin_unlock(&memory->lock);
    if (batch && (batch->segments || batch->pinned)) {
        batch->next = memory->unlisted;
        memory->unlisted = batch;
    } else {
        ph__free(batch);
    }
    ph__batches_wait(memory, failure, done);
    return batch != NULL;
}
