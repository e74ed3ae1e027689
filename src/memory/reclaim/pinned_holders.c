/* SPDX-License-Identifier: MIT */
/* memory/reclaim/pinned_holders.c: pinned blocks that work may still read: who holds them, and when
 * they are let go. */
#include "memory/reclaim/pinned_holders.h"
#include "base/range_map.h"
#include "base/vec.h"
#include "memory/reclaim/pool_lifetime.h"
#include "memory/state/find.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include "memory/streams/deferred.h"
#include "memory/streams/uses.h"

void ph__pinned_hold(ph__memory *memory, ph__pinned *block)
{
    ph__memory_lock(memory);
    block->next = memory->held;
    memory->held = block;
    ph__set_slow_path(memory, PH__SLOW_RECLAIM, true);
    ph__spin_unlock(&memory->lock);
}

ph__stream_uses *ph__pinned_uses(ph__pinned *block)
{
    if (!block->uses && (block->uses = ph__stream_uses_create()) != NULL) {
        block->uses->pinned = block;
        block->uses->pool = block->pool;
        block->uses->state = PH__BLOCK_FREEING;
    }
    return block->uses;
}

/* Waits for the streams that may still read it; what the host writes into it is in no stream's
 * order. */
static bool wait_for_pinned_streams(ph__memory *memory, ph__pinned *block)
{
    ph__stream_uses *uses = ph__pinned_uses(block);
    if (!uses || !ph__stream_uses_add(uses, block->stream, 0, false))
        return false;
    ph__stream_release(block->stream);
    block->stream = NULL;
    uses->state = PH__BLOCK_FREEING;
    ph__stream_uses_defer(memory, uses, NULL);
    return true;
}

/* Drops one holder that no graph holds any more: its last replay, which may still read the
 * block, becomes a use of it. false: there is none, or no host memory. *dead: see
 * ph__pool_unkeep. Lock held. */
static bool drop_holder(ph__pinned *block, ph_pool **dead)
{
    for (size_t i = block->holders.count; i-- > 0;) {
        ph_pool *holder = block->holders.at[i];
        if (holder->graphs > 0 ||
            (holder->last_replay &&
             !(ph__pinned_uses(block) &&
               ph__stream_uses_add(block->uses, holder->last_replay, 0, false))))
            continue;
        block->holders.at[i] = block->holders.at[--block->holders.count];
        ph__pool_unkeep(holder, dead);
        return true;
    }
    return false;
}

/* Drops all such holders of a freed block; false: it must still be held. */
static bool drop_dead_holders(ph__memory *memory, ph__pinned *block)
{
    bool dropped = true;
    while (dropped) {
        ph_pool *dead = NULL;
        ph__memory_lock(memory);
        dropped = drop_holder(block, &dead);
        ph__spin_unlock(&memory->lock);
        ph__pool_bury(dead);
    }
    return block->holders.count == 0 && !block->held_for_good;
}

/* A block that must still be held is with a holder that graphs hold, until none does. Lock held.
 * false: there is no such one, and it is looked at again at the next chance. */
static bool park_block(ph__pinned *block)
{
    for (size_t i = 0; i < block->holders.count; i++) {
        ph_pool *holder = block->holders.at[i];
        if (holder->graphs == 0)
            continue;
        block->next = holder->parked;
        holder->parked = block;
        return true;
    }
    return false;
}

void ph__pinned_unpark(ph_pool *pool)
{
    while (pool->parked) {
        ph__pinned *block = pool->parked;
        pool->parked = block->next;
        block->next = pool->memory->held;
        pool->memory->held = block;
    }
}

void ph__held_process(ph__memory *memory)
{
    ph__memory_lock(memory);
    ph__pinned *block = memory->held;
    memory->held = NULL;
    ph__spin_unlock(&memory->lock);
    while (block) {
        ph__pinned *next = block->next;
        block->next = NULL;
        ph__step(memory);
        bool over = drop_dead_holders(memory, block) && wait_for_pinned_streams(memory, block);
        ph__memory_lock(memory);
        /* A block that is held for good is known by its address alone. */
        if (!over && !block->held_for_good && !park_block(block)) {
            block->next = memory->held;
            memory->held = block;
        }
        ph__spin_unlock(&memory->lock);
        block = next;
    }
}

/* ---- captured copies ---- */

/* The pool holds the live pinned block around address, if there is one. A holder that is over
 * goes for the new one, so that a block which lives through any number of captures has no more
 * of them than there were at once. The result is to be buried. Lock held. */
static ph_pool *hold_for(ph__memory *memory, ph_pool *pool, const void *address)
{
    ph_pool *dead = NULL;
    ph__pinned *block = ph__pinned_find(memory, (uintptr_t)address);
    if (!block)
        return NULL;
    for (size_t i = 0; i < block->holders.count; i++)
        if (block->holders.at[i] == pool)
            return NULL;
    (void)drop_holder(block, &dead);
    if (ph__vec_push(&block->holders, pool))
        pool->keeps++;
    else
        block->held_for_good = true;
    return dead;
}

void ph__memory_pin_used(ph_pool *pool, const void *address)
{
    ph__memory_lock(pool->memory);
    ph_pool *dead = hold_for(pool->memory, pool, address);
    ph__spin_unlock(&pool->memory->lock);
    ph__pool_bury(dead);
}

void ph__copy_captured(ph__attachment *attachment, uint64_t capture_id, const void *dst,
                       const void *src)
{
    ph__memory *memory = (ph__memory *)attachment;
    ph_pool *dead[2] = {NULL, NULL};
    ph__memory_lock(memory);
    for (ph_pool *pool = memory->routes; pool; pool = pool->next_route) {
        if (pool->capture_id != capture_id)
            continue;
        dead[0] = hold_for(memory, pool, dst);
        dead[1] = hold_for(memory, pool, src);
        break;
    }
    ph__spin_unlock(&memory->lock);
    ph__pool_bury(dead[0]);
    ph__pool_bury(dead[1]);
}

size_t ph__memory_pinned_held(const ph_device *device,
                              bool (*holds)(const void *user, const ph_pool *pool),
                              const void *user)
{
    ph__memory *memory = ph__memory_of(device);
    size_t bytes = 0;
    if (!memory)
        return 0;
    ph__memory_lock(memory);
    for (const ph__range *range = ph__range_map_from(&memory->pinned, 0); range;
         range = ph__range_map_from(&memory->pinned, range->base + range->size)) {
        const ph__pinned *block = range->value;
        bool held = false;
        for (size_t h = 0; h < block->holders.count && !held; h++)
            held = holds(user, block->holders.at[h]);
        bytes += held ? block->size : 0;
    }
    ph__spin_unlock(&memory->lock);
    return bytes;
}
