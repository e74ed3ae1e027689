/* SPDX-License-Identifier: MIT */
/* memory/observe/track.c: allocations that graphs track, and whether they still live. */
#include "memory/observe/track.h"
#include "base/alloc.h"
#include "memory/block/block.h"
#include "memory/capture/replay_allocator.h"
#include "memory/state/announced.h"
#include "memory/state/find.h"
#include "memory/state/free_counter.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"

/* An allocation that graphs track, of one of four kinds. */
typedef struct tracked {
    ph__part *part; /* which a replay allocator has given; it lies in a block of the allocator's */
    ph__block *block;
    ph__pinned *pinned;
    ph__announced *announced;
} tracked;

/* The allocation at base when it is still that one. Lock held. */
static bool find_tracked_allocation(tracked *out, const ph__memory *memory, const void *base,
                                    uint64_t generation)
{
    *out = (tracked){.part = memory->replay_allocators ? ph__replay_allocator_live(memory, base)
                                                       : NULL};
    if (out->part && out->part->generation == generation)
        return true;
    out->part = NULL;
    out->block = ph__memory_block(memory, (uintptr_t)base);
    if (out->block)
        return out->block->generation == generation && ph__block_is_live(out->block);
    out->pinned = ph__pinned_find(memory, (uintptr_t)base);
    if (out->pinned)
        return out->pinned->generation == generation;
    out->announced = ph__announced_find(memory, (uintptr_t)base);
    return out->announced && out->announced->generation == generation;
}

/* ---- tracking ---- */
/* Lock held. */
static void count_tracker(const tracked *it)
{
    if (it->part)
        it->part->trackers += it->part->trackers < PH__TRACKED;
    else if (it->announced)
        it->announced->trackers++;
    else if (it->pinned)
        it->pinned->trackers++;
    else if (((uintptr_t)it->block->user & PH__TRACKED) < PH__TRACKED)
        it->block->user = (void *)((uintptr_t)it->block->user + 1);
}

/* Lock held. */
static void discount_tracker(const tracked *it)
{
    uintptr_t trackers = it->block ? (uintptr_t)it->block->user & PH__TRACKED : 0;
    if (it->part)
        it->part->trackers -= it->part->trackers > 0 && it->part->trackers < PH__TRACKED;
    else if (it->announced && it->announced->trackers > 0)
        it->announced->trackers--;
    else if (it->pinned && it->pinned->trackers > 0)
        it->pinned->trackers--;
    else if (it->block && trackers > 0 && trackers < PH__TRACKED)
        it->block->user = (void *)((uintptr_t)it->block->user - 1);
}

/* Most of what is tracked again, as by further words of one graph, has its entry already. */
ph__tracking ph__memory_track(ph_device *device, const void *base, uint64_t generation,
                              ph__watch *watch)
{
    ph__memory *memory = ph__memory_of(device);
    ph__watcher *fresh = NULL;
    tracked it;
    if (!memory)
        return PH__TRACK_GONE;
    for (bool again = false;; again = true) {
        ph__memory_lock(memory);
        bool found = find_tracked_allocation(&it, memory, base, generation);
        bool watched = found && (!watch || ph__watcher_add(memory, generation, watch, &fresh));
        if (watched)
            count_tracker(&it);
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
    tracked it;
    if (!memory)
        return;
    ph__memory_lock(memory);
    if (watch)
        gone = ph__watcher_remove(memory, generation, watch);
    if (find_tracked_allocation(&it, memory, base, generation))
        discount_tracker(&it);
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
    tracked it;
    if (!memory)
        return false;
    ph__memory_lock(memory);
    bool live = find_tracked_allocation(&it, memory, base, generation);
    ph__spin_unlock(&memory->lock);
    return live;
}

bool ph__memory_is_announced(const ph_device *device, const void *address)
{
    ph__memory *memory = ph__memory_of(device);
    if (!memory)
        return false;
    ph__memory_lock(memory);
    bool announced = ph__announced_find(memory, (uintptr_t)address) != NULL;
    ph__spin_unlock(&memory->lock);
    return announced;
}
