/* SPDX-License-Identifier: MIT */
/* memory/capture/born.c: blocks that were allocated while a capture was open. A node of the
 * captured graph may address them, whatever pool they are of: until the graph has been read they
 * are not used again. */
#include "memory/capture/born.h"
#include "memory/block/block.h"
#include "memory/capture/released.h"
#include "memory/capture/workers.h"
#include "memory/state/handout.h"
#include "memory/state/memories.h"
#include "memory/state/memory_state.h"
#include "memory/state/pool_state.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"

/* ---- captures that are open, or whose graph is being read ---- on whatever device */
/* own: the pool whose own capture does not count; NULL: all do. */
static bool is_awaited(const ph_pool *own, uint64_t generation)
{
    for (const ph_pool *pool = ph__recordings; pool; pool = pool->next_recording)
        if (pool != own && generation >= pool->born_from)
            return true;
    return false;
}

/* Blocks that a capture was given from its pool are its own to use again, in the order of its
 * graph. */
static bool is_of_own_capture(const ph__block *block)
{
    const ph_pool *pool = ph__mseg_of(block)->pool;
    return pool->recording == PH__IN_CAPTURE && block->generation >= pool->born_from;
}

bool ph__born_in(const ph__stream_uses *uses, uint64_t capture_id)
{
    if (uses->pinned)
        return uses->pinned->capture_id == capture_id;
    return uses->pool->capture_id == capture_id && is_of_own_capture(uses->block);
}

bool ph__born_awaits(const ph__block *block)
{
    return !is_of_own_capture(block) && is_awaited(ph__mseg_of(block)->pool, block->generation);
}

/* ---- a block that is being freed ---- */
bool ph__born_keeps(ph__memory *memory, const ph__block *block)
{
    if (is_of_own_capture(block)) /* a node of another one that is open may address it */
        return is_awaited(ph__mseg_of(block)->pool, block->generation) &&
               !ph__released_note(memory, block);
    return ph__born_awaits(block) &&
           (ph__born_is_captured_work(block) || !ph__released_note(memory, block));
}

/* ---- blocks that have been freed ---- */
/* The host writes pinned memory at once, in no order of a graph's: the own capture counts too. */
static bool uses_await(ph__memory *memory, const ph__stream_uses *uses)
{
    if (uses->pinned)
        return is_awaited(NULL, uses->pinned->generation);
    return is_awaited(uses->pool, uses->block->generation) &&
           !(uses->ordered && ph__released_note(memory, uses->block));
}

bool ph__born_withhold(ph__memory *memory, ph__stream_uses *uses)
{
    ph__memory_lock(memory);
    bool held = uses->holders > 0, waits = !held && uses_await(memory, uses);
    if (held) {
        uses->state = PH__BLOCK_HELD;
    } else if (waits) {
        uses->state = PH__BLOCK_AWAITED;
        uses->next = memory->awaited;
        memory->awaited = uses;
    }
    ph__spin_unlock(&memory->lock);
    return held || waits;
}

/* Stands in blocks that wait without a record. */
static _Alignas(16) ph__stream_uses awaiting = {.state = PH__BLOCK_AWAITED};

bool ph__born_is_waiting(const ph__stream_uses *uses)
{
    return uses == &awaiting;
}

/* While a block is in use the core has no need of its links. Lock held. */
static void link_block(ph__memory *memory, ph__block *block)
{
    ph__block_set_stream_uses(block, &awaiting);
    block->link[0] = memory->awaited_blocks;
    block->link[1] = NULL;
    if (block->link[0])
        block->link[0]->link[1] = block;
    memory->awaited_blocks = block;
}

void ph__born_unlink(ph__memory *memory, ph__block *block)
{
    if (block->link[1])
        block->link[1]->link[0] = block->link[0];
    else
        memory->awaited_blocks = block->link[0];
    if (block->link[0])
        block->link[0]->link[1] = block->link[1];
}

void ph__born_wait(ph__memory *memory, ph__block *block)
{
    ph__waiting_count(memory, ph__mseg_of(block)->pool, true);
    link_block(memory, block);
}

/* Out of the list: those that no capture waits for any more, which nobody else can meet. Lock held.
 * */
ph__block *ph__born_acquire_due(ph__memory *memory)
{
    ph__block *due = NULL;
    for (ph__block *block = memory->awaited_blocks, *next; block; block = next) {
        next = block->link[0];
        if (ph__born_awaits(block))
            continue;
        ph__born_unlink(memory, block);
        block->link[0] = due;
        due = block;
    }
    return due;
}
