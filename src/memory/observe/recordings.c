/* SPDX-License-Identifier: MIT */
/* memory/observe/recordings.c: the captures of the process that are open, or whose graph is
 * being read, and which devices allocate meanwhile: a node may address memory of any device.
 * Generations that are given after a capture's begin, by whatever memory, are later than its
 * born_from, and all others are earlier. */
#include "memory/state.h"

ph_pool *ph__recordings;

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
        memory->generation_end = memory->generation; /* what comes next is of a later chunk */
        ph__see(memory, PH__SEE_BORN, true);
    }
}

/* The device stays open until the captures have ended: what it has allocated meanwhile, and frees,
 * may have to be held. */
void ph__born_handed_out(ph__memory *memory)
{
    if (memory->born)
        return;
    memory->born = true;
    (void)ph_device_retain(memory->device);
}

static bool has_unsettled(const ph__memory *memory)
{
    return memory->awaited || memory->awaited_blocks || (memory->born && !ph__recordings);
}

/* What an older capture waits for as well stays where it is. */
ph__memory *ph__born_end(ph_pool *pool)
{
    ph__memory *memory = ph__memories_lock(), *unsettled = NULL;
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
        ph__see(memory, PH__SEE_BORN, ph__recordings != NULL);
        if (older || memory->unsettled || !has_unsettled(memory) || !ph__memory_try_retain(memory))
            continue;
        memory->unsettled = true;
        memory->next_unsettled = unsettled;
        unsettled = memory;
    }
    ph__memories_unlock();
    return unsettled;
}

/* ---- what was allocated meanwhile ---- */
/* What the capture was given from its own pool is no such memory. */
static bool has_born(ph__memory *memory, const ph_pool *pool)
{
    ph__spin_lock(&memory->lock);
    bool has = pool->memory != memory ? memory->born && memory->generation > pool->born_from
                                      : pool->recording == PH__IN_CAPTURE &&
                                            ph__handed(memory) - pool->born_handed != pool->noted;
    ph__spin_unlock(&memory->lock);
    return has;
}

/* The devices are there until the capture has ended: see ph__born_handed_out. */
bool ph__pool_record_births(ph__births *out, ph_pool *pool)
{
    bool ok = true;
    *out = (ph__births){0};
    for (ph__memory *memory = ph__memories_begin(); memory && ok; memory = memory->next_memory) {
        ph__birthplace place = {.device = memory->device};
        if (!has_born(memory, pool))
            continue;
        ph__memory_hulls(&place.hulls, memory->device);
        ok = ph__vec_push(out, place);
    }
    ph__memories_end();
    if (!ok)
        ph__vec_free(out);
    return ok;
}
