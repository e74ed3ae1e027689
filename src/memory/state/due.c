/* SPDX-License-Identifier: MIT */
/* memory/state/due.c: the lists of pools and segments that reclaim examines next. */
#include "memory/state/due.h"
#include "memory/state/memory_state.h"
#include "memory/state/segment.h"

/* ---- what is due ---- */
void ph__pool_due(ph_pool *pool)
{
    ph__memory *memory = pool->memory;
    ph__set_slow_path(memory, PH__SLOW_RECLAIM, true);
    if (pool->due)
        return;
    pool->due = true;
    pool->previous_due = NULL;
    pool->next_due = memory->due_pools;
    if (pool->next_due)
        pool->next_due->previous_due = pool;
    memory->due_pools = pool;
}

void ph__pool_not_due(ph_pool *pool)
{
    if (!pool->due)
        return;
    pool->due = false;
    if (pool->previous_due)
        pool->previous_due->next_due = pool->next_due;
    else
        pool->memory->due_pools = pool->next_due;
    if (pool->next_due)
        pool->next_due->previous_due = pool->previous_due;
}

void ph__mseg_due(ph__memory *memory, ph__mseg *mseg)
{
    ph__set_slow_path(memory, PH__SLOW_RECLAIM, true);
    if (mseg->due)
        return;
    mseg->due = true;
    mseg->previous_due = NULL;
    mseg->next_due = memory->due_segments;
    if (mseg->next_due)
        mseg->next_due->previous_due = mseg;
    memory->due_segments = mseg;
}

void ph__mseg_not_due(ph__memory *memory, ph__mseg *mseg)
{
    if (!mseg->due)
        return;
    mseg->due = false;
    if (mseg->previous_due)
        mseg->previous_due->next_due = mseg->next_due;
    else
        memory->due_segments = mseg->next_due;
    if (mseg->next_due)
        mseg->next_due->previous_due = mseg->previous_due;
}

void ph__mseg_link(ph__mseg *mseg)
{
    ph__mseg **first = &mseg->stream->replays.segments;
    mseg->previous_there = NULL;
    mseg->next_there = *first;
    if (*first)
        (*first)->previous_there = mseg;
    *first = mseg;
}

void ph__mseg_unlink(ph__memory *memory, ph__mseg *mseg)
{
    ph__mseg_not_due(memory, mseg);
    if (mseg->previous_there)
        mseg->previous_there->next_there = mseg->next_there;
    else
        mseg->stream->replays.segments = mseg->next_there;
    if (mseg->next_there)
        mseg->next_there->previous_there = mseg->previous_there;
}

void ph__stream_segments_due(ph__memory *memory, ph_stream *stream)
{
    for (ph__mseg *mseg = stream->replays.segments; mseg; mseg = mseg->next_there)
        if (mseg->segment->used_blocks == 0)
            ph__mseg_due(memory, mseg);
}
