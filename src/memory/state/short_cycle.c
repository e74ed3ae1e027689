/* SPDX-License-Identifier: MIT */
/* memory/state/short_cycle.c: the end of a short cycle. */
#include "memory/state/short_cycle.h"
#include "memory/state/due.h"

void ph__cycle_return(ph__memory *memory)
{
    memory->cycle.returned = false;
    ph__segment *segment = ph__heap_give(memory->default_pool.heap, memory->cycle.block);
    ph__mseg *mseg = segment->user;
    if (segment->used_blocks == 0 &&
        atomic_load_explicit(&mseg->stream->destroyed, memory_order_relaxed))
        ph__mseg_due(memory, mseg);
}
