/* SPDX-License-Identifier: MIT */
/* memory/capture/ranges.c: the address ranges that an open capture was given. */
#include "memory/capture/ranges.h"
#include "base/range_map.h"
#include "base/vec.h"
#include "memory/block/block.h"
#include "memory/capture/allocation_log.h"
#include "memory/capture/workers.h"
#include "memory/state/allocation.h"
#include "memory/state/memory_state.h"
#include "memory/state/pool_state.h"
#include "memory/state/segment.h"
#include <stdlib.h>

/* ---- what a capture was given ---- */

static int by_base(const void *a, const void *b)
{
    const ph__span *x = a, *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}

static void merge_given(ph_pool *pool)
{
    size_t count = 0;
    ph__span *at = pool->given.at;
    if (pool->given.count > 1)
        qsort(at, pool->given.count, sizeof *at, by_base);
    for (size_t i = 0; i < pool->given.count; i++) {
        if (count > 0 && at[i].base <= at[count - 1].base + at[count - 1].size) {
            uintptr_t end = at[i].base + at[i].size;
            if (end > at[count - 1].base + at[count - 1].size)
                at[count - 1].size = end - at[count - 1].base;
        } else {
            at[count++] = at[i];
        }
    }
    pool->given.count = pool->given_merged = count;
}

bool ph__given_reserve(ph_pool *pool)
{
    if (pool->given.count < pool->given.capacity)
        return true;
    if (pool->given.count >= 2 * pool->given_merged + 64)
        merge_given(pool);
    return ph__vec_reserve(&pool->given, 1);
}

void ph__given_note(ph_pool *pool, uint64_t capture_id, const ph__block *block)
{
    const ph__placing placing = {.stream = block->segment->stream,
                                 .address = block->address,
                                 .requested = block->requested,
                                 .size = block->size,
                                 .generation = block->generation};
    ph__mseg_of(block)->captured = true;
    ph__born_work(pool);
    ph__layout_note(pool, capture_id, &placing);
    /* Work that goes from one buffer to another is given the same two in turn. */
    size_t count = pool->given.count;
    for (size_t i = count; i > 0 && i + 2 > count; i--)
        if (pool->given.at[i - 1].base == block->address &&
            pool->given.at[i - 1].size == block->size)
            return;
    pool->given.at[pool->given.count++] = (ph__span){block->address, block->size};
}

/* Room is made outside the lock; the spans may grow in number meanwhile, by other threads'
 * requests. */
ph_status ph__pool_record_ranges(ph__ranges *out, ph_pool *pool, uint64_t capture_id)
{
    ph__memory *memory = pool->memory;
    PH__VEC(ph__span) copy = {0};
    bool fits = false;
    *out = (ph__ranges){0};
    while (!fits) {
        ph__spin_lock(&memory->lock);
        merge_given(pool);
        size_t count = pool->capture_id == capture_id ? pool->given.count : 0;
        fits = count <= copy.capacity;
        if (fits && count > 0)
            for (copy.count = 0; copy.count < count; copy.count++)
                copy.at[copy.count] = pool->given.at[copy.count];
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
