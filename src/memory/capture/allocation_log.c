/* SPDX-License-Identifier: MIT */
/* memory/capture/allocation_log.c: the allocation log of a capture: its blocks, in the order in
 * which it asked for them. */
#include "memory/capture/allocation_log.h"
#include "base/range_map.h"
#include "base/vec.h"
#include "memory/state/allocation.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/short_cycle.h"
#include <string.h>

/* ---- what captures are given ---- lock held. A request may outlive the capture that it was
 * made in: that one's list is gone then. */
void ph__layout_note(ph_pool *pool, uint64_t capture_id, const ph__logged_allocation *entry)
{
    if (pool->capture_id != capture_id)
        return;
    pool->noted += !entry->pinned;
    pool->allocation_log.lost =
        pool->allocation_log.lost || !ph__vec_push(&pool->allocation_log.list, *entry);
}

void ph__pool_acquire_layout(ph__layout *out, ph_pool *pool, uint64_t capture_id)
{
    *out = (ph__layout){0};
    ph__memory_lock(pool->memory);
    if (pool->capture_id == capture_id) {
        *out = pool->allocation_log;
        pool->allocation_log = (ph__layout){0};
    }
    ph__spin_unlock(&pool->memory->lock);
}

void ph__layout_free(ph__layout *log)
{
    ph__vec_free(&log->list);
    log->lost = false;
}

size_t ph__layout_bytes(const ph__layout *log)
{
    return log->list.capacity * sizeof *log->list.at;
}

bool ph__layout_copy(ph__layout *out, const ph__layout *from)
{
    *out = (ph__layout){.lost = from->lost};
    if (!ph__vec_reserve(&out->list, from->list.count))
        return false;
    if (from->list.count > 0)
        memcpy(out->list.at, from->list.at, from->list.count * sizeof *from->list.at);
    out->list.count = from->list.count;
    return true;
}

/* Pinned blocks are not the pool's own for good: it must be the one that the capture had, and be
 * in nobody else's hands. */
bool ph__allocation_entry_is_in(const ph__memory *memory, const ph__logged_allocation *entry)
{
    const ph__range *range =
        ph__range_map_find(entry->pinned ? &memory->pinned : &memory->segments, entry->address);
    if (range == NULL || !entry->pinned)
        return range != NULL;
    const ph__pinned *block = range->value;
    return !block->free && block->generation == entry->generation;
}

bool ph__logged_allocation_is_live(const ph_device *device, const ph__logged_allocation *entry)
{
    ph__memory *memory = ph__memory_of(device);
    if (memory == NULL)
        return false;
    ph__memory_lock(memory);
    bool there = ph__allocation_entry_is_in(memory, entry);
    ph__spin_unlock(&memory->lock);
    return there;
}
