/* SPDX-License-Identifier: MIT */
/* memory/reclaim/pinned_memory.c: pinned memory from the driver and back. */
#include "memory/reclaim/pinned_memory.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/range_map.h"
#include "base/vec.h"
#include "device/capture/refuse.h"
#include "memory/reclaim/pool_lifetime.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/pinned_lists.h"
#include "memory/state/short_cycle.h"
#include "memory/streams/uses.h"

int ph__pinned_driver_alloc(void **out, ph__memory *memory, size_t bytes)
{
    ph_capture_mode mode;
    ph__relaxed_begin(memory->device, &mode);
    int result = memory->driver->pinned_alloc(out, memory->device->handle, bytes);
    ph__relaxed_end(memory->device, mode);
    return result;
}

void ph__pinned_driver_free(ph__memory *memory, uintptr_t address)
{
    ph_capture_mode mode;
    ph__relaxed_begin(memory->device, &mode);
    int result = memory->driver->pinned_free(memory->device->handle, (void *)address);
    ph__relaxed_end(memory->device, mode);
    if (result != PH__R_OK)
        ph__log(PH_LOG_WARNING,
                "pinned memory at %p: giving it back gave %d (%s); it may stay taken until the "
                "process ends",
                (void *)address, result, ph__result_name(result));
}

void ph__pinned_move(ph__pinned *block, ph_pool *pool, ph_pool **dead)
{
    ph_pool *before = block->pool;
    if (before == pool)
        return;
    if (!ph__pool_is_default(before))
        before->account.pinned_reserved -= block->size;
    if (!ph__pool_is_default(pool))
        pool->account.pinned_reserved += block->size;
    pool->keeps++;
    block->pool = pool;
    ph__pool_unkeep(before, dead);
}

void ph__pinned_cache(ph__memory *memory, ph__pinned *block)
{
    ph_pool *dead = NULL;
    ph__memory_lock(memory);
    ph__pinned_move(block, &memory->default_pool, &dead);
    ph__pinned_give(block);
    ph__spin_unlock(&memory->lock);
    ph__pool_bury(dead);
}

void ph__pinned_destroy(ph__memory *memory, ph__pinned *block)
{
    ph_pool *dead = NULL;
    ph__memory_lock(memory);
    /* Before the driver may give the address out again. */
    (void)ph__range_map_remove(&memory->pinned, block->address);
    ph__spin_unlock(&memory->lock);
    ph__pinned_driver_free(memory, block->address);
    ph__memory_lock(memory);
    memory->account.pinned_reserved -= block->size;
    if (!ph__pool_is_default(block->pool))
        block->pool->account.pinned_reserved -= block->size;
    ph__pool_unkeep(block->pool, &dead);
    ph__spin_unlock(&memory->lock);
    ph__pool_bury(dead);
    ph__vec_free(&block->holders);
    ph__free(block);
}

void ph__pinned_close(ph__memory *memory)
{
    while (memory->pinned.count > 0) {
        ph__pinned *block = ph__range_map_from(&memory->pinned, 0)->value;
        (void)ph__range_map_remove(&memory->pinned, block->address);
        ph__stream_uses_destroy(memory, block->uses);
        if (block->stream)
            ph__stream_release(block->stream);
        ph__pinned_driver_free(memory, block->address);
        ph__vec_free(&block->holders);
        ph__free(block);
    }
}
