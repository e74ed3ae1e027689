/* SPDX-License-Identifier: MIT */
/* memory/capture/ranges.c: the address ranges that an open capture was given. */
#include "memory/capture/ranges.h"
#include "base/range_map.h"
#include "base/vec.h"
#include "memory/block/block.h"
#include "memory/capture/allocation_log.h"
#include "memory/capture/replay_allocator.h"
#include "memory/capture/workers.h"
#include "memory/state/allocation.h"
#include "memory/state/memory_state.h"
#include "memory/state/pool_state.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"
#include <stdlib.h>

/* ---- what a capture was given ---- */

static int by_base(const void *a, const void *b)
{
    const ph__address_span *x = a, *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}

static void merge_capture_ranges(ph_pool *pool)
{
    size_t count = 0;
    ph__address_span *at = pool->capture_ranges.at;
    if (pool->capture_ranges.count > 1)
        qsort(at, pool->capture_ranges.count, sizeof *at, by_base);
    for (size_t i = 0; i < pool->capture_ranges.count; i++) {
        if (count > 0 && at[i].base <= at[count - 1].base + at[count - 1].size) {
            uintptr_t end = at[i].base + at[i].size;
            if (end > at[count - 1].base + at[count - 1].size)
                at[count - 1].size = end - at[count - 1].base;
        } else {
            at[count++] = at[i];
        }
    }
    pool->capture_ranges.count = pool->capture_ranges_merged = count;
}

bool ph__capture_ranges_reserve(ph_pool *pool)
{
    if (pool->capture_ranges.count < pool->capture_ranges.capacity)
        return true;
    if (pool->capture_ranges.count >= 2 * pool->capture_ranges_merged + 64)
        merge_capture_ranges(pool);
    return ph__vec_reserve(&pool->capture_ranges, 1);
}

void ph__capture_ranges_add(ph_pool *pool, uint64_t capture_id, const ph__block *block)
{
    const ph__logged_allocation entry = {.stream = block->segment->stream,
                                         .address = block->address,
                                         .requested = block->requested,
                                         .size = block->size,
                                         .generation = block->generation};
    ph__mseg_of(block)->captured = true;
    ph__born_work(pool);
    ph__layout_note(pool, capture_id, &entry);
    /* Work that goes from one buffer to another is given the same two in turn. */
    size_t count = pool->capture_ranges.count;
    for (size_t i = count; i > 0 && i + 2 > count; i--)
        if (pool->capture_ranges.at[i - 1].base == block->address &&
            pool->capture_ranges.at[i - 1].size == block->size)
            return;
    pool->capture_ranges.at[pool->capture_ranges.count++] =
        (ph__address_span){block->address, block->size};
}

/* Room is made outside the lock; the spans may grow in number meanwhile, by other threads'
 * requests. */
ph_status ph__pool_record_ranges(ph__ranges *out, ph_pool *pool, uint64_t capture_id)
{
    ph__memory *memory = pool->memory;
    PH__VEC(ph__address_span) copy = {0};
    bool fits = false;
    *out = (ph__ranges){0};
    while (!fits) {
        ph__memory_lock(memory);
        merge_capture_ranges(pool);
        size_t count = pool->capture_id == capture_id ? pool->capture_ranges.count : 0;
        fits = count <= copy.capacity;
        if (fits && count > 0)
            for (copy.count = 0; copy.count < count; copy.count++)
                copy.at[copy.count] = pool->capture_ranges.at[copy.count];
        ph__spin_unlock(&memory->lock);
        if (!fits && !ph__vec_reserve(&copy, count))
            return ph__fail_host_memory("ph_graph_capture_end", "the ranges of the capture");
    }
    ph_status status = PH_OK;
    for (size_t i = 0; i < copy.count && status == PH_OK; i++)
        if (!ph__ranges_add(out, copy.at[i].base, copy.at[i].size, memory))
            status = ph__fail_host_memory("ph_graph_capture_end", "the ranges of the capture");
    ph__vec_free(&copy);
    if (status != PH_OK)
        ph__ranges_free(out);
    return status;
}

static bool lies_in(const ph__ranges *ranges, uintptr_t address, size_t bytes)
{
    const ph__range *hit = ranges ? ph__ranges_from(ranges, address) : NULL;
    return !ranges || (hit && hit->base < address + bytes);
}

static const ph__block *find_live(const ph_pool *pool, const ph__segment *segment,
                                  const ph__ranges *ranges)
{
    for (const ph__block *block = segment->first; block; block = block->next) {
        if (block->free || block->generation < pool->born_from || !ph__block_is_live(block))
            continue;
        if (lies_in(ranges, block->address, block->size))
            return block;
    }
    return NULL;
}

/* Of a capture whose memory is planned: its blocks are parts of one that is older. */
static const ph__range *find_planned(const ph_pool *pool, const ph__ranges *ranges)
{
    const ph__ranges *live = pool->replay_allocator ? &pool->replay_allocator->live : NULL;
    for (size_t i = 0; live && i < live->count; i++)
        if (lies_in(ranges, live->at[i].base, live->at[i].size))
            return &live->at[i];
    return NULL;
}

uintptr_t ph__capture_live_block(size_t *bytes, ph_pool *pool, uint64_t capture_id,
                                 const ph__ranges *ranges)
{
    const ph__block *live = NULL;
    ph__memory_lock(pool->memory);
    const ph__segment *segment =
        pool->capture_id == capture_id ? ph__heap_first_segment(pool->heap) : NULL;
    for (; segment && !live; segment = segment->next) {
        if (lies_in(ranges, segment->address, segment->size))
            live = find_live(pool, segment, ranges);
    }
    const ph__range *planned =
        !live && pool->capture_id == capture_id ? find_planned(pool, ranges) : NULL;
    const uintptr_t address = live ? live->address : planned ? planned->base : 0;
    *bytes = live ? live->size : planned ? planned->size : 0;
    ph__spin_unlock(&pool->memory->lock);
    return address;
}

/* The stream of the least number above `after`. */
static void consider_stream(ph_stream **next, ph_stream *stream, uint64_t after)
{
    if (stream->id > after && (!*next || stream->id < (*next)->id))
        *next = stream;
}

/* Of blocks that are freed, and wait for the streams that used them. */
static void consider_users(ph_stream **next, const ph__segment *segment, const ph__ranges *ranges,
                           uint64_t after)
{
    for (const ph__block *block = segment->first; block; block = block->next) {
        const ph__stream_uses *uses = block->free ? NULL : ph__block_stream_uses(block);
        if (!uses || uses->list.count == 0 || ph__block_is_live(block) ||
            !lies_in(ranges, block->address, block->size))
            continue;
        for (size_t i = 0; i < uses->list.count; i++)
            consider_stream(next, uses->list.at[i].stream, after);
    }
}

ph_stream *ph__capture_next_stream(ph_pool *pool, uint64_t capture_id, const ph__ranges *ranges,
                                   uint64_t after)
{
    ph_stream *next = NULL;
    ph__memory_lock(pool->memory);
    const ph__segment *segment =
        pool->capture_id == capture_id ? ph__heap_first_segment(pool->heap) : NULL;
    for (; segment; segment = segment->next) {
        if (!lies_in(ranges, segment->address, segment->size))
            continue;
        consider_stream(&next, ((const ph__mseg *)segment->user)->stream, after);
        consider_users(&next, segment, ranges, after);
    }
    if (next)
        (void)ph__stream_retain(next);
    ph__spin_unlock(&pool->memory->lock);
    return next;
}
