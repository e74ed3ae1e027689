/* SPDX-License-Identifier: MIT */
/* memory/state/find.c: the block that an address lies in. */
#include "memory/state/find.h"
#include "base/range_map.h"
#include "memory/block/block.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/stream_uses.h"

uint64_t ph__generation_chunk(void)
{
    static _Atomic uint64_t next = 1;
    return atomic_fetch_add_explicit(&next, (uint64_t)1 << 20, memory_order_relaxed);
}

ph__block *ph__memory_block(const ph__memory *memory, uintptr_t address)
{
    ph__block *block = ph__heap_find(memory->default_pool.heap, address);
    if (block)
        return block;
    const ph__range *range = ph__range_map_find(&memory->segments, address);
    return range ? ph__heap_find(((ph__segment *)range->value)->heap, address) : NULL;
}

ph__block *ph__memory_live_block(const ph__memory *memory, const void *pointer)
{
    ph__block *block = ph__memory_block(memory, (uintptr_t)pointer);
    return block && block->address == (uintptr_t)pointer && ph__block_is_live(block) ? block : NULL;
}

ph__pinned *ph__pinned_find(const ph__memory *memory, uintptr_t address)
{
    const ph__range *range = ph__range_map_find(&memory->pinned, address);
    ph__pinned *block = range ? range->value : NULL;
    return block && !block->free && !block->freed_by_user ? block : NULL;
}
