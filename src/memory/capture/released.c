/* SPDX-License-Identifier: MIT */
/* memory/capture/released.c: blocks that threads which capture nothing allocated and freed while a
 * capture was open. They may use them again: that is noted, so that a node which addresses such a
 * block is found out. Lock held for all of it. */
#include "memory/capture/released.h"
#include "base/range_map.h"
#include "memory/block/block.h"
#include "memory/capture/born.h"
#include "memory/capture/workers.h"
#include "memory/state/handout.h"
#include "memory/state/memories.h"
#include "memory/state/memory_state.h"
#include "memory/state/segment.h"

/* ---- what they free ---- */
/* Of captures that are over. */
void ph__released_forget(ph__memory *memory)
{
    uint64_t first = UINT64_MAX;
    for (const ph_pool *pool = ph__recordings; pool; pool = pool->next_recording)
        first = pool->born_from < first ? pool->born_from : first;
    const ph__range *one = ph__range_map_from(&memory->released, 0);
    while (one) {
        uintptr_t base = one->base, last = one->base + (one->size - 1);
        bool over = (uint64_t)(uintptr_t)one->value < first;
        if (over)
            (void)ph__range_map_remove(&memory->released, base);
        one = last == UINTPTR_MAX ? NULL : ph__range_map_from(&memory->released, last + 1);
    }
    memory->released_kept = memory->released.count;
}

bool ph__released_note(ph__memory *memory, const ph__block *block)
{
    if (memory->released.count >= 2 * memory->released_kept + 1024)
        ph__released_forget(memory);
    return ph__range_map_cover(&memory->released, block->address, block->size,
                               (void *)(uintptr_t)block->generation);
}

const ph__range *ph__released_find(const ph__memory *memory, uintptr_t address)
{
    return ph__range_map_find(&memory->released, address);
}

/* Takes it out of its heap, to be held: nobody has it. Lock held. NULL: somebody has some of it, or
 * there is no host memory. */
ph__block *ph__released_acquire(ph__memory *memory, const ph__range *released)
{
    bool no_memory;
    const ph__range *range = ph__range_map_find(&memory->segments, released->base);
    ph__segment *segment = range ? range->value : NULL;
    if (!segment)
        return NULL;
    ph_pool *pool = ((ph__mseg *)segment->user)->pool;
    ph__block *block = ph__heap_acquire_at(pool->heap, released->base, released->size,
                                           released->size, segment->stream, &no_memory);
    if (block)
        ph__memory_hand_out(memory, pool, block);
    return block;
}

/* ---- who works on a capture takes none of it ---- its blocks are its nodes' too, and what is
 * noted could not be told from them. */
static bool works_on_any(void)
{
    uint32_t thread = ph__born_thread();
    for (const ph_pool *pool = ph__recordings; pool; pool = pool->next_recording)
        if (ph__born_works(pool, thread))
            return true;
    return false;
}

static bool overlaps_released(const ph__memory *memory, const ph__block *block)
{
    const ph__range *one = ph__range_map_from(&memory->released, block->address);
    return one && one->base < block->address + block->size;
}

bool ph__released_avoid(ph__memory *memory, ph_pool *pool, ph__block *block)
{
    if (memory->released.count == 0 || !works_on_any() || !overlaps_released(memory, block))
        return false;
    ph__memory_hand_out(memory, pool, block);
    ph__memory_retire(memory, block, ph__mseg_of(block)->stream);
    ph__born_wait(memory, block);
    return true;
}
