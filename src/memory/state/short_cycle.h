/* SPDX-License-Identifier: MIT */
/* memory/state/short_cycle.h: a block that is freed right after it was allocated, and allocated
 * again: the heap would merge it and split the same piece off again.
 *
 * Deferred coalescing, of one block: the one that the heap of the default pool gave last. Freed
 * while nothing else was done to that heap, it stays out of it; giving it back would restore the
 * heap as it was before the allocation, so that an equal request gets this block whatever the
 * heap's rules are. All counts of the statistics are made at once. Whoever takes the lock but for
 * the short path ends the cycle first. */
#ifndef PH_MEMORY_STATE_SHORT_CYCLE_H
#define PH_MEMORY_STATE_SHORT_CYCLE_H
#include "base/sync.h"
#include "memory/state/memory_state.h"

/* Lock held: the block goes back to its heap. */
void ph__cycle_return(ph__memory *memory);
/* Lock held, before anything else is done to the heap. */
static inline void ph__cycle_end(ph__memory *memory)
{
    if (memory->cycle.returned)
        ph__cycle_return(memory);
    memory->cycle.block = NULL;
}
/* Takes the lock, and ends the cycle. */
static inline void ph__memory_lock(ph__memory *memory)
{
    ph__spin_lock(&memory->lock);
    ph__cycle_end(memory);
}
#endif
