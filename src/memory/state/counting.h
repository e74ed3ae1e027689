/* SPDX-License-Identifier: MIT */
/* memory/state/counting.h: what the short path and the others count when a block changes hands:
 * inline, so that the short path is one function each way. Lock held. */
#ifndef PH_MEMORY_STATE_COUNTING_H
#define PH_MEMORY_STATE_COUNTING_H
#include "memory/block/block.h"
#include "memory/state/account.h"
#include "memory/state/due.h"
#include "memory/state/find.h"
#include "memory/state/free_counter.h"
#include "memory/state/handout.h"
#include "memory/state/memory_state.h"
#include "memory/state/segment.h"
#include "memory/state/stream_uses.h"

/* Parts of the short path, which must not become calls. */
#define PH__SHORT static inline __attribute__((always_inline))

/* The free parts around a used block. */
PH__SHORT ph__parts ph__short_parts_around(const ph__block *block)
{
    const ph__block *previous = block->previous, *next = block->next;
    ph__parts around = {0, 0};
    if (previous && previous->free) {
        around.blocks++;
        around.bytes += previous->size;
    }
    if (next && next->free) {
        around.blocks++;
        around.bytes += next->size;
    }
    return around;
}

/* A used block and its free neighbours, as one free block. */
PH__SHORT ph__parts ph__short_parts_merged(const ph__block *block, ph__parts around)
{
    size_t bytes = block->size + around.bytes;
    if (bytes == block->segment->size)
        return (ph__parts){0, 0};
    return (ph__parts){1, bytes};
}

PH__SHORT void ph__short_count_change(ph__tally *tally, unsigned half, size_t before, size_t after)
{
    if (after > before)
        ph__tally_add(tally, half, after - before);
    else
        ph__tally_remove(tally, half, before - after);
}

PH__SHORT void ph__short_count_parts(ph__account *account, unsigned half, ph__parts before,
                                     ph__parts after)
{
    if (before.blocks != after.blocks)
        ph__short_count_change(&account->tally[PH__COUNT_SPLIT], half, before.blocks, after.blocks);
    ph__short_count_change(&account->tally[PH__COUNT_SPLIT_BYTES], half, before.bytes, after.bytes);
}

PH__SHORT void ph__short_count_allocated(ph__account *account, unsigned half,
                                         const ph__block *block)
{
    ph__tally_add(&account->tally[PH__COUNT_BLOCKS], half, 1);
    ph__tally_add(&account->tally[PH__COUNT_BYTES], half, block->size);
    ph__tally_add(&account->tally[PH__COUNT_REQUESTED], half, block->requested);
    if (account->waiting_blocks[0] + account->waiting_blocks[1] != 0)
        ph__account_active_peaks(account);
}

PH__SHORT void ph__short_count_retired(ph__account *account, unsigned half, const ph__block *block)
{
    ph__tally_remove(&account->tally[PH__COUNT_BLOCKS], half, 1);
    ph__tally_remove(&account->tally[PH__COUNT_BYTES], half, block->size);
    ph__tally_remove(&account->tally[PH__COUNT_REQUESTED], half, block->requested);
}

PH__SHORT unsigned ph__short_half_of(const ph__block *block)
{
    return block->segment->small ? 0 : 1;
}

PH__SHORT void ph__short_hand_out(ph__memory *memory, ph_pool *pool, ph__block *block)
{
    unsigned half = ph__short_half_of(block);
    ph__parts after = ph__short_parts_around(block), before = ph__short_parts_merged(block, after);
    block->generation = ph__next_generation(memory);
    ph__short_count_allocated(&memory->account, half, block);
    ph__short_count_parts(&memory->account, half, before, after);
    if (pool != &memory->default_pool) {
        ph__short_count_allocated(&pool->account, half, block);
        ph__short_count_parts(&pool->account, half, before, after);
    }
}

PH__SHORT void ph__short_retire(ph__memory *memory, ph__block *block)
{
    unsigned half = ph__short_half_of(block);
    ph_pool *pool = ph__mseg_of(block)->pool;
    if ((uintptr_t)block->user & PH__TRACKED) {
        block->user = ph__block_stream_uses(block);
        ph__free_counter_add(memory, block->generation);
    }
    if (block->generation < memory->freed.bound)
        ph__block_note_freed(memory, block);
    ph__short_count_retired(&memory->account, half, block);
    if (pool != &memory->default_pool)
        ph__short_count_retired(&pool->account, half, block);
}

/* Nobody can allocate from the segment any more, unless replays write it, which is looked at
 * then. */
PH__SHORT bool ph__short_is_abandoned(const ph__mseg *mseg)
{
    return mseg->pool->use_count == 0 ||
           atomic_load_explicit(&mseg->stream->destroyed, memory_order_relaxed);
}

PH__SHORT void ph__short_count_freed(ph__memory *memory, ph_pool *pool, const ph__block *block)
{
    unsigned half = ph__short_half_of(block);
    ph__parts before = ph__short_parts_around(block), after = ph__short_parts_merged(block, before);
    ph__short_count_parts(&memory->account, half, before, after);
    if (pool != &memory->default_pool)
        ph__short_count_parts(&pool->account, half, before, after);
}

PH__SHORT void ph__short_give(ph__memory *memory, ph__block *block)
{
    ph_pool *pool = ph__mseg_of(block)->pool;
    ph__short_count_freed(memory, pool, block);
    ph__segment *segment = ph__heap_give(pool->heap, block);
    if (segment->used_blocks == 0 && ph__short_is_abandoned(segment->user))
        ph__mseg_due(memory, segment->user);
}
#endif
