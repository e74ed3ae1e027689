/* SPDX-License-Identifier: MIT */
/* memory/state/find.h: the block that an address lies in, and the numbers of allocations. Lock
 * held. */
#ifndef PH_MEMORY_STATE_FIND_H
#define PH_MEMORY_STATE_FIND_H
#include "memory/state/memory_state.h"

uint64_t ph__generation_chunk(void);
static inline uint64_t ph__next_generation(ph__memory *memory)
{
    if (memory->generation == memory->generation_end) {
        uint64_t chunk = ph__generation_chunk();
        memory->skipped += chunk - memory->generation;
        memory->generation = chunk;
        memory->generation_end = memory->generation + ((uint64_t)1 << 20);
    }
    return memory->generation++;
}
/* How many it has given. */
static inline uint64_t ph__handed(const ph__memory *memory)
{
    return memory->generation - memory->skipped;
}
/* The block in use that address is in, live or waiting. */
ph__block *ph__memory_block(const ph__memory *memory, uintptr_t address);
static inline void ph__address_bounds_widen(struct ph__address_bounds *bounds, uintptr_t address,
                                            size_t size)
{
    uintptr_t highest = atomic_load_explicit(&bounds->highest, memory_order_relaxed);
    if (highest == 0 || address < atomic_load_explicit(&bounds->lowest, memory_order_relaxed))
        atomic_store_explicit(&bounds->lowest, address, memory_order_relaxed);
    if (address + size > highest)
        atomic_store_explicit(&bounds->highest, address + size, memory_order_release);
}
/* False: nothing of the memory was ever there. */
static inline bool ph__address_bounds_have(const struct ph__address_bounds *bounds,
                                           uintptr_t address)
{
    return address < atomic_load_explicit(&bounds->highest, memory_order_acquire) &&
           address >= atomic_load_explicit(&bounds->lowest, memory_order_relaxed);
}
static inline bool ph__memory_may_have(const ph__memory *memory, uintptr_t address)
{
    return ph__address_bounds_have(&memory->device_bounds, address) ||
           ph__address_bounds_have(&memory->pinned_bounds, address);
}
/* The live block that begins at the pointer, or NULL. */
ph__block *ph__memory_live_block(const ph__memory *memory, const void *pointer);
/* The live pinned block that address is in, or NULL. */
ph__pinned *ph__pinned_find(const ph__memory *memory, uintptr_t address);
#endif
