/* SPDX-License-Identifier: MIT */
/* memory/reclaim/pool_lifetime.c: how long the object of a pool lives. */
#include "memory/reclaim/pool_lifetime.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/vec.h"
#include "memory/block/block.h"
#include "memory/block/block_heap.h"
#include "memory/state/due.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"
#include "memory/streams/dependency_walk.h"
#include "memory/streams/events.h"
#include "memory/streams/replay_streams.h"

bool ph__pool_init(ph_pool *pool, ph__memory *memory)
{
    pool->memory = memory;
    pool->use_count = 1;
    pool->heap_options = (ph__heap_options){.no_split = pool->options.no_split};
    pool->heap = ph__heap_create(&pool->heap_options);
    if (!pool->heap)
        return false;
    return true;
}

/* A pool whose count fell to zero is still named by its live blocks: it may be held again, with
 * its device. */
void ph__pool_hold(ph_pool *pool)
{
    if (pool->use_count++ == 0)
        (void)ph_device_retain(pool->device);
}

void ph__pool_unkeep(ph_pool *pool, ph_pool **dead)
{
    if (--pool->keeps > 0 || pool->use_count > 0)
        return;
    pool->previous->next = pool->next;
    if (pool->next)
        pool->next->previous = pool->previous;
    (void)ph__map_remove(&pool->memory->pools, (uint64_t)(uintptr_t)pool);
    ph__pool_not_due(pool);
    ph__pool_leave_replay(pool);
    *dead = pool;
}

/* A pool that has gone leaves its address taken for some time, so that a handle which somebody
 * still has does not come to name another pool. */
static void keep_address(ph_pool *dead)
{
    enum {
        KEPT = 256
    };
    ph__memory *memory = dead->memory;
    ph__memory_lock(memory);
    dead->next = NULL;
    *memory->gone_last = dead;
    memory->gone_last = &dead->next;
    memory->gone_count++;
    ph__spin_unlock(&memory->lock);
    ph__pools_forget(memory, KEPT);
}

void ph__pool_bury(ph_pool *dead)
{
    if (!dead)
        return;
    ph__heap_destroy(dead->heap);
    ph__dependency_walks_free(dead->walks);
    ph__vec_free(&dead->capture_ranges);
    ph__vec_free(&dead->workers);
    ph__mark_recycle(dead->memory, dead->replayed);
    for (size_t i = 0; i < dead->before.count; i++)
        ph__mark_recycle(dead->memory, dead->before.at[i].event);
    ph__vec_free(&dead->before);
    if (dead->last_replay)
        ph__stream_release(dead->last_replay);
    if (dead->ended)
        dead->ended(dead->options.user);
    if (dead->handle_reported)
        keep_address(dead);
    else
        ph__free(dead);
}

void ph__pools_forget(ph__memory *memory, size_t kept)
{
    for (ph_pool *oldest = NULL;; ph__free(oldest)) {
        ph__memory_lock(memory);
        bool more = memory->gone_count > kept;
        if (more) {
            oldest = memory->gone;
            memory->gone = oldest->next;
            if (!memory->gone)
                memory->gone_last = &memory->gone;
            memory->gone_count--;
        }
        ph__spin_unlock(&memory->lock);
        if (!more)
            return;
    }
}
