/* SPDX-License-Identifier: MIT */
/* memory/capture/captures.c: the captures of the process that are open, or whose graph is being
 * read, and which devices allocate meanwhile: a node may address memory of any device.
 * Generations that are given after a capture's begin, by whatever memory, are later than its
 * born_from, and all others are earlier. */
#include "memory/capture/captures.h"
#include "memory/capture/released.h"
#include "memory/capture/workers.h"
#include "memory/state/find.h"
#include "memory/state/memories.h"
#include "memory/state/memory_state.h"

/* ---- begin and end ---- */
void ph__born_begin(ph_pool *pool, ph__memory *all)
{
    pool->born_from = ph__generation_chunk();
    pool->born_handed = ph__handed(pool->memory);
    pool->noted = 0;
    ph__born_no_work(pool);
    ph__born_work(pool);
    pool->next_recording = ph__recordings;
    ph__recordings = pool;
    for (ph__memory *memory = all; memory; memory = memory->next_memory) {
        memory->generation_end = memory->generation; /* later blocks are of a later chunk */
        ph__set_slow_path(memory, PH__SLOW_BORN, true);
    }
}

static bool has_to_reclaim(const ph__memory *memory)
{
    return memory->awaited || memory->awaited_blocks || (memory->born && !ph__recordings);
}

/* Blocks that an older capture waits for as well stay where they are. */
ph__memory *ph__born_end(ph_pool *pool)
{
    ph__memory *memory = ph__memories_lock(), *to_reclaim = NULL;
    ph_pool **at = &ph__recordings;
    bool older = false;
    while (*at && *at != pool)
        at = &(*at)->next_recording;
    if (*at)
        *at = pool->next_recording;
    pool->next_recording = NULL;
    for (const ph_pool *other = ph__recordings; other && !older; other = other->next_recording)
        older = other->born_from < pool->born_from;
    for (; memory; memory = memory->next_memory) {
        if (!ph__recordings)
            ph__released_forget(memory);
        ph__set_slow_path(memory, PH__SLOW_BORN, ph__recordings != NULL);
        if (older || memory->to_reclaim || !has_to_reclaim(memory) ||
            !ph__memory_try_retain(memory))
            continue;
        memory->to_reclaim = true;
        memory->next_to_reclaim = to_reclaim;
        to_reclaim = memory;
    }
    ph__memories_unlock();
    return to_reclaim;
}
