/* SPDX-License-Identifier: MIT */
/* memory/track.c: what is behind an address, and whether it still lives. */
#include "memory/state.h"
#include <string.h>

bool ph__memory_find(ph_allocation *out, const ph_device *device, const void *address)
{
    ph__memory *memory = ph__memory_of(device);
    bool found = false;
    memset(out, 0, sizeof *out);
    if (!memory || !ph__memory_may_have(memory, (uintptr_t)address))
        return false;
    ph__spin_lock(&memory->lock);
    const ph__block *block = ph__memory_block(memory, (uintptr_t)address);
    const ph__pinned *pinned = block ? NULL : ph__pinned_find(memory, (uintptr_t)address);
    if (block && ph__block_is_live(block)) {
        ph_pool *pool = ph__mseg_of(block)->pool;
        out->base = (void *)block->address;
        out->requested = block->requested;
        out->size = block->size;
        out->generation = block->generation;
        out->pool = ph__pool_is_default(pool) ? NULL : pool;
        found = true;
    } else if (pinned) {
        out->base = (void *)pinned->address;
        out->requested = pinned->requested;
        out->size = pinned->size;
        out->generation = pinned->generation;
        out->pool = ph__pool_is_default(pinned->pool) ? NULL : pinned->pool;
        out->pinned = true;
        found = true;
    }
    ph__spin_unlock(&memory->lock);
    return found;
}

bool ph__memory_is_taken(const ph_device *device, const void *address)
{
    ph__memory *memory = ph__memory_of(device);
    if (!memory)
        return false;
    ph__spin_lock(&memory->lock);
    bool taken = ph__ranges_find(&memory->segments, (uintptr_t)address) ||
                 ph__ranges_find(&memory->pinned, (uintptr_t)address);
    ph__spin_unlock(&memory->lock);
    return taken;
}

ph_status ph_memory_lookup(ph_allocation *out, const ph_device *device, const void *address)
{
    static const char call[] = "ph_memory_lookup";
    if (!out)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    if (!device)
        return ph__fail_null(call, "device");
    return ph__memory_find(out, device, address) ? PH_OK : ph__fail_not_live(call, address, device);
}

/* The allocation at base when it is still that one. Lock held. */
static bool find(const ph__memory *memory, const void *base, uint64_t generation, ph__block **block,
                 ph__pinned **pinned)
{
    *pinned = NULL;
    *block = ph__memory_block(memory, (uintptr_t)base);
    if (*block)
        return (*block)->generation == generation && ph__block_is_live(*block);
    *pinned = ph__pinned_find(memory, (uintptr_t)base);
    return *pinned && (*pinned)->generation == generation;
}

bool ph__memory_track(ph_device *device, const void *base, uint64_t generation)
{
    ph__memory *memory = ph__memory_of(device);
    ph__block *block;
    ph__pinned *pinned;
    if (!memory)
        return false;
    ph__spin_lock(&memory->lock);
    bool found = find(memory, base, generation, &block, &pinned);
    if (found && pinned)
        pinned->trackers++;
    else if (found && ((uintptr_t)block->user & PH__TRACKED) < PH__TRACKED)
        block->user = (void *)((uintptr_t)block->user + 1);
    ph__spin_unlock(&memory->lock);
    return found;
}

void ph__memory_untrack(ph_device *device, const void *base, uint64_t generation)
{
    ph__memory *memory = ph__memory_of(device);
    ph__block *block;
    ph__pinned *pinned;
    if (!memory)
        return;
    ph__spin_lock(&memory->lock);
    if (find(memory, base, generation, &block, &pinned)) {
        uintptr_t trackers = block ? (uintptr_t)block->user & PH__TRACKED : 0;
        if (pinned && pinned->trackers > 0)
            pinned->trackers--;
        else if (block && trackers > 0 && trackers < PH__TRACKED)
            block->user = (void *)((uintptr_t)block->user - 1);
    }
    ph__spin_unlock(&memory->lock);
}

uint64_t ph__memory_deaths(const ph_device *device)
{
    ph__memory *memory = ph__memory_of(device);
    return memory ? atomic_load_explicit(&memory->deaths, memory_order_acquire) : 0;
}

bool ph__memory_is_live(const ph_device *device, const void *base, uint64_t generation)
{
    ph__memory *memory = ph__memory_of(device);
    ph__block *block;
    ph__pinned *pinned;
    if (!memory)
        return false;
    ph__spin_lock(&memory->lock);
    bool live = find(memory, base, generation, &block, &pinned);
    ph__spin_unlock(&memory->lock);
    return live;
}
