/* SPDX-License-Identifier: MIT */
/* memory/observe/lookup.c: the allocation around an address. */
#include "memory/observe/lookup.h"
#include "base/range_map.h"
#include "memory/block/block.h"
#include "memory/capture/replay_allocator.h"
#include "memory/state/announced.h"
#include "memory/state/find.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/pool_handle.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include <string.h>

ph_status ph__fail_not_live(const char *call, const void *address, const ph_device *device)
{
    return ph__fail_native(
        PH_ERROR_NOT_FOUND, 0, NULL,
        "%s: %p is no live allocation of device %s; pass the address that ph_malloc gave, "
        "before it is freed",
        call, address, device->name);
}

static void report_block(ph_allocation *out, const ph__block *block)
{
    ph_pool *pool = ph__mseg_of(block)->pool;
    *out = (ph_allocation){.base = (void *)block->address,
                           .requested = block->requested,
                           .size = block->size,
                           .generation = block->generation,
                           .pool = ph__pool_is_default(pool) ? NULL : pool};
}

static void report_pinned(ph_allocation *out, const ph__pinned *pinned)
{
    *out = (ph_allocation){.base = (void *)pinned->address,
                           .requested = pinned->requested,
                           .size = pinned->size,
                           .generation = pinned->generation,
                           .pool = ph__pool_is_default(pinned->pool) ? NULL : pinned->pool,
                           .pinned = true};
}

static void report_announced(ph_allocation *out, const ph__announced *block)
{
    *out = (ph_allocation){.base = (void *)block->address,
                           .requested = block->size,
                           .size = block->size,
                           .generation = block->generation,
                           .pinned = block->pinned,
                           .foreign = true};
}

/* Step by step for all, so that what is slow to come for one address is waited for together with
 * that of the others. */
void ph__memory_find_locked(ph_allocation *out, const struct ph__memory *memory,
                            const uintptr_t *addresses, size_t count)
{
    const ph__block *blocks[PH__FIND_MOST];
    for (size_t i = 0; i < count; i++)
        blocks[i] = ph__memory_may_have(memory, addresses[i])
                        ? ph__memory_block(memory, addresses[i])
                        : NULL;
    for (size_t i = 0; i < count; i++) {
        const ph__pinned *pinned = blocks[i] ? NULL : ph__pinned_find(memory, addresses[i]);
        const ph__announced *other =
            blocks[i] || pinned ? NULL : ph__announced_find(memory, addresses[i]);
        out[i] = (ph_allocation){.base = NULL};
        if (blocks[i] && ph__block_is_live(blocks[i]))
            report_block(&out[i], blocks[i]);
        else if (pinned)
            report_pinned(&out[i], pinned);
        else if (other)
            report_announced(&out[i], other);
    }
}

void ph__memory_find_all(ph_allocation *out, const ph_device *device, const uintptr_t *addresses,
                         size_t count)
{
    ph__memory *memory = ph__memory_of(device);
    if (!memory) {
        memset(out, 0, count * sizeof *out);
        return;
    }
    ph__memory_lock(memory);
    ph__memory_find_locked(out, memory, addresses, count);
    for (size_t i = 0; memory->replay_allocators && i < count; i++) {
        ph_allocation replayed;
        if (ph__replay_allocator_find(&replayed, memory, addresses[i]))
            out[i] = replayed;
        else if (ph__replay_allocator_has_arena(memory, out[i].base))
            out[i] = (ph_allocation){.base = NULL}; /* nobody's just now */
    }
    ph__spin_unlock(&memory->lock);
}

/* A block, as most times: straight to it. counted: NULL, or as of ph__memory_find_counted. */
static inline bool find_block(ph_allocation *out, bool *counted, ph__memory *memory, uintptr_t at)
{
    ph__memory_lock(memory);
    ph__block *block = memory->replay_allocators ? NULL : ph__memory_block(memory, at);
    bool live = block && ph__block_is_live(block);
    if (live)
        report_block(out, block);
    if (live && counted)
        block->user = (void *)((uintptr_t)block->user | PH__TRACKED);
    ph__spin_unlock(&memory->lock);
    if (counted)
        *counted = live;
    return live;
}

static inline bool find_allocation(ph_allocation *out, bool *counted, const ph_device *device,
                                   const void *address)
{
    ph__memory *memory = ph__memory_of(device);
    const uintptr_t at = (uintptr_t)address;
    if (!memory || !ph__memory_may_have(memory, at)) {
        memset(out, 0, sizeof *out);
        return false;
    }
    if (!find_block(out, counted, memory, at))
        ph__memory_find_all(out, device, &at, 1);
    return out->base != NULL;
}

bool ph__memory_find(ph_allocation *out, const ph_device *device, const void *address)
{
    return find_allocation(out, NULL, device, address);
}

bool ph__memory_find_counted(ph_allocation *out, bool *counted, const ph_device *device,
                             const void *address)
{
    *counted = false;
    return find_allocation(out, counted, device, address);
}

bool ph__memory_reserved_by(ph_pool_id *out, const ph_device *device, const void *address)
{
    ph__memory *memory = ph__memory_of(device);
    if (!memory || !ph__memory_may_have(memory, (uintptr_t)address))
        return false;
    ph__memory_lock(memory);
    const ph__range *segment = ph__range_map_find(&memory->segments, (uintptr_t)address);
    const ph__range *pinned =
        segment ? NULL : ph__range_map_find(&memory->pinned, (uintptr_t)address);
    const ph_pool *pool = NULL;
    if (segment)
        pool = ((const ph__mseg *)((const ph__segment *)segment->value)->user)->pool;
    else if (pinned)
        pool = ((const ph__pinned *)pinned->value)->pool;
    if (pool)
        *out = pool->id;
    ph__spin_unlock(&memory->lock);
    return pool != NULL;
}

bool ph__memory_is_reserved(const ph_device *device, const void *address)
{
    ph_pool_id pool;
    return ph__memory_reserved_by(&pool, device, address);
}

static void read_bounds(uintptr_t *lowest, uintptr_t *highest,
                        const struct ph__address_bounds *bounds)
{
    *highest = atomic_load_explicit(&bounds->highest, memory_order_acquire);
    *lowest = atomic_load_explicit(&bounds->lowest, memory_order_relaxed);
}

void ph__memory_read_bounds(ph__memory_bounds *out, const ph_device *device)
{
    const ph__memory *memory = ph__memory_of(device);
    *out = (ph__memory_bounds){{0, 0}, {0, 0}};
    if (!memory)
        return;
    read_bounds(&out->device.lowest, &out->device.highest, &memory->device_bounds);
    read_bounds(&out->pinned.lowest, &out->pinned.highest, &memory->pinned_bounds);
}

ph_status ph_memory_lookup(ph_allocation *out, const ph_device *device, const void *address)
{
    static const char call[] = "ph_memory_lookup";
    if (!out)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    if (!device)
        return ph__fail_null(call, "device");
    PH_TRY(ph__device_check(device, call));
    if (!ph__memory_find(out, device, address))
        return ph__fail_not_live(call, address, device);
    ph__pool_report_handle(out->pool);
    return PH_OK;
}
