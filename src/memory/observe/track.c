/* SPDX-License-Identifier: MIT */
/* memory/observe/track.c: allocations that graphs track, and whether they still live. */
#include "memory/observe/track.h"
#include "base/alloc.h"
#include "memory/block/block.h"
#include "memory/state/find.h"
#include "memory/state/free_counter.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"

/* The allocation at base when it is still that one. Lock held. */
static bool find_tracked_allocation(const ph__memory *memory, const void *base, uint64_t generation,
                                    ph__block **block, ph__pinned **pinned)
{
    *pinned = NULL;
    *block = ph__memory_block(memory, (uintptr_t)base);
    if (*block)
        return (*block)->generation == generation && ph__block_is_live(*block);
    *pinned = ph__pinned_find(memory, (uintptr_t)base);
    return *pinned && (*pinned)->generation == generation;
}

/* ---- tracking ---- */
/* Lock held. */
static void count_tracker(ph__block *block, ph__pinned *pinned)
{
    if (pinned)
        pinned->trackers++;
    else if (((uintptr_t)block->user & PH__TRACKED) < PH__TRACKED)
        block->user = (void *)((uintptr_t)block->user + 1);
}

/* Most of what is tracked again, as by further words of one graph, has its entry already. */
ph__tracking ph__memory_track(ph_device *device, const void *base, uint64_t generation,
                              ph__watch *watch)
{
    ph__memory *memory = ph__memory_of(device);
    ph__watcher *fresh = NULL;
    ph__block *block;
    ph__pinned *pinned;
    if (!memory)
        return PH__TRACK_GONE;
    for (bool again = false;; again = true) {
        ph__memory_lock(memory);
        bool found = find_tracked_allocation(memory, base, generation, &block, &pinned);
        bool watched = found && (!watch || ph__watcher_add(memory, generation, watch, &fresh));
        if (watched)
            count_tracker(block, pinned);
        ph__spin_unlock(&memory->lock);
        if (!found || watched || again) {
            ph__free(fresh);
            return !found ? PH__TRACK_GONE : watched ? PH__TRACKS : PH__TRACK_NO_MEMORY;
        }
        fresh = ph__watcher_create();
        if (!fresh)
            return PH__TRACK_NO_MEMORY;
    }
}

void ph__memory_untrack(ph_device *device, const void *base, uint64_t generation, ph__watch *watch)
{
    ph__memory *memory = ph__memory_of(device);
    ph__watcher *gone = NULL;
    ph__block *block;
    ph__pinned *pinned;
    if (!memory)
        return;
    ph__memory_lock(memory);
    if (watch)
        gone = ph__watcher_remove(memory, generation, watch);
    if (find_tracked_allocation(memory, base, generation, &block, &pinned)) {
        uintptr_t trackers = block ? (uintptr_t)block->user & PH__TRACKED : 0;
        if (pinned && pinned->trackers > 0)
            pinned->trackers--;
        else if (block && trackers > 0 && trackers < PH__TRACKED)
            block->user = (void *)((uintptr_t)block->user - 1);
    }
    ph__spin_unlock(&memory->lock);
    ph__free(gone);
}

uint64_t ph__memory_free_count(const ph_device *device)
{
    ph__memory *memory = ph__memory_of(device);
    return memory ? atomic_load_explicit(&memory->free_count, memory_order_acquire) : 0;
}

bool ph__memory_is_live(const ph_device *device, const void *base, uint64_t generation)
{
    ph__memory *memory = ph__memory_of(device);
    ph__block *block;
    ph__pinned *pinned;
    if (!memory)
        return false;
    ph__memory_lock(memory);
    bool live = find_tracked_allocation(memory, base, generation, &block, &pinned);
    ph__spin_unlock(&memory->lock);
    return live;
}
