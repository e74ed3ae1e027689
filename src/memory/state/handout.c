/* SPDX-License-Identifier: MIT */
/* memory/state/handout.c: blocks that go into the caller's hands, out of them, and back to their
 * heap. */
#include "memory/state/handout.h"
#include "memory/block/block.h"
#include "memory/state/account.h"
#include "memory/state/counting.h"
#include "memory/state/history.h"
#include "memory/state/memory_state.h"
#include "memory/state/segment.h"

/* The device stays open until the captures have ended: what it has allocated meanwhile, and frees,
 * may have to be held. */
void ph__born_handed_out(ph__memory *memory)
{
    if (memory->born)
        return;
    memory->born = true;
    (void)ph_device_retain(memory->device);
}

void ph__memory_hand_out(ph__memory *memory, ph_pool *pool, ph__block *block)
{
    ph__short_hand_out(memory, pool, block);
    block->thread = ph__born_thread();
    if (ph__slow_path_has(memory, PH__SLOW_BORN))
        ph__born_handed_out(memory);
    if (ph__slow_path_has(memory, PH__SLOW_HISTORY))
        ph__history_note(memory, PH__ALLOC, block->address, block->size, pool,
                         ph__mseg_of(block)->stream, block->generation);
}

void ph__block_note_freed(ph__memory *memory, const ph__block *block)
{
    const ph_pool *pool = ph__mseg_of(block)->pool;
    const ph_allocation was = {.base = (void *)block->address,
                               .requested = block->requested,
                               .size = block->size,
                               .generation = block->generation};
    const ph_pool_id none = {0, 0};
    ph__freed_list_add(&memory->freed, &was, pool == &memory->default_pool ? none : pool->id);
}

void ph__memory_retire(ph__memory *memory, ph__block *block, ph_stream *stream)
{
    unsigned half = ph__short_half_of(block);
    ph_pool *pool = ph__mseg_of(block)->pool;
    ph__short_retire(memory, block);
    ph__account_waiting(&memory->account, half, block->size, true);
    if (pool != &memory->default_pool)
        ph__account_waiting(&pool->account, half, block->size, true);
    if (ph__slow_path_has(memory, PH__SLOW_HISTORY))
        ph__history_note(memory, PH__FREE, block->address, block->size, ph__mseg_of(block)->pool,
                         stream, block->generation);
}

void ph__memory_give(ph__memory *memory, ph__block *block)
{
    unsigned half = ph__short_half_of(block);
    ph_pool *pool = ph__mseg_of(block)->pool;
    ph__account_waiting(&memory->account, half, block->size, false);
    if (pool != &memory->default_pool)
        ph__account_waiting(&pool->account, half, block->size, false);
    ph__short_give(memory, block);
}

void ph__waiting_count(ph__memory *memory, ph_pool *pool, bool waits)
{
    size_t one = waits ? 1 : SIZE_MAX;
    memory->account.waiting += one;
    pool->account.waiting += one;
    pool->waiting += one;
}
