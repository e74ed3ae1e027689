/* SPDX-License-Identifier: MIT */
/* memory/released.c: which threads work on a capture; and what other threads allocated and freed
 * while it was open, which they may use again: it is noted, so that a node which addresses it is
 * found out. Lock held for all of it. */
#include "memory/state.h"

/* ---- threads ---- those that capture nothing allocate and free all the while, and would take ever
 * more memory if that waited. */
uint32_t ph__born_thread(void)
{
    return (uint32_t)ph__thread_id();
}

bool ph__born_works(const ph_pool *pool, uint32_t thread)
{
    bool found = pool->worker == thread;
    for (size_t i = 0; i < pool->workers.count && !found; i++)
        found = pool->workers.at[i] == thread;
    return found;
}

/* Without host memory the last one alone is known. */
void ph__born_work(ph_pool *pool)
{
    uint32_t thread = ph__born_thread();
    if (pool->worker == thread)
        return;
    if (!ph__born_works(pool, thread))
        (void)ph__vec_push(&pool->workers, thread);
    pool->worker = thread;
}

void ph__born_work_on(ph__memory *memory, uint64_t capture_id)
{
    ph_pool *pool = memory->routes;
    while (pool && pool->capture_id != capture_id)
        pool = pool->next_route;
    if (pool)
        ph__born_work(pool);
}

/* A thread that works on one of the captures which might address it has to do with it. */
bool ph__born_is_captured_work(const ph__memory *memory, const ph__block *block)
{
    uint32_t thread = ph__born_thread();
    for (const ph_pool *pool = memory->recordings; pool; pool = pool->next_recording)
        if (block->generation >= pool->born_from &&
            (ph__born_works(pool, thread) || ph__born_works(pool, block->thread)))
            return true;
    return block->thread != thread;
}

/* ---- what they free ---- */
/* Of captures that are over. */
void ph__released_forget(ph__memory *memory)
{
    uint64_t first = UINT64_MAX;
    size_t kept = 0;
    for (const ph_pool *pool = memory->recordings; pool; pool = pool->next_recording)
        first = pool->born_from < first ? pool->born_from : first;
    for (size_t i = 0; i < memory->released.count; i++) {
        const ph__released one = memory->released.at[i];
        if (one.generation < first) {
            (void)ph__map_remove(&memory->released_at, one.address);
            continue;
        }
        memory->released.at[kept] = one;
        (void)ph__map_put(&memory->released_at, one.address,
                          (void *)(uintptr_t)(++kept)); /* replaces */
    }
    memory->released.count = memory->released_kept = kept;
}

/* false: no host memory. */
bool ph__released_note(ph__memory *memory, const ph__block *block)
{
    if (memory->released.count >= 2 * memory->released_kept + 1024)
        ph__released_forget(memory);
    size_t at = (size_t)(uintptr_t)ph__map_get(&memory->released_at, block->address);
    if (at == 0) {
        if (!ph__vec_reserve(&memory->released, 1) || !ph__map_reserve(&memory->released_at, 1))
            return false;
        at = ++memory->released.count;
        memory->released.at[at - 1] = (ph__released){block->address, 0, 0};
        (void)ph__map_put(&memory->released_at, block->address, (void *)(uintptr_t)at);
    }
    ph__released *one = &memory->released.at[at - 1];
    one->size = block->size > one->size ? block->size : one->size;
    one->generation = block->generation;
    return true;
}

/* What was noted of an address, also of an interior one; NULL: nothing. */
const ph__released *ph__released_find(const ph__memory *memory, uintptr_t address)
{
    size_t at = (size_t)(uintptr_t)ph__map_get(&memory->released_at, address);
    if (at)
        return &memory->released.at[at - 1];
    for (size_t i = 0; i < memory->released.count; i++)
        if (address - memory->released.at[i].address < memory->released.at[i].size)
            return &memory->released.at[i];
    return NULL;
}

/* Takes it out of its heap, to be held: nobody has it. Lock held. NULL: somebody has some of it, or
 * there is no host memory. */
ph__block *ph__released_take(ph__memory *memory, const ph__released *released)
{
    bool no_memory;
    const ph__range *range = ph__range_map_find(&memory->segments, released->address);
    ph__segment *segment = range ? range->value : NULL;
    if (!segment)
        return NULL;
    ph_pool *pool = ((ph__mseg *)segment->user)->pool;
    ph__block *block = ph__heap_take_at(pool->heap, released->address, released->size,
                                        released->size, segment->stream, &no_memory);
    if (block)
        ph__memory_hand_out(memory, pool, block);
    return block;
}

/* ---- who works on a capture takes none of it ---- its blocks are its nodes' too, and what is noted
 * could not be told from them. */
static bool works_on_any(const ph__memory *memory)
{
    uint32_t thread = ph__born_thread();
    for (const ph_pool *pool = memory->recordings; pool; pool = pool->next_recording)
        if (ph__born_works(pool, thread))
            return true;
    return false;
}

static bool overlaps(const ph__memory *memory, const ph__block *block)
{
    if (ph__map_get(&memory->released_at, block->address))
        return true;
    for (size_t i = 0; i < memory->released.count; i++) {
        const ph__released *one = &memory->released.at[i];
        if (one->address < block->address + block->size &&
            block->address < one->address + one->size)
            return true;
    }
    return false;
}

bool ph__released_avoid(ph__memory *memory, ph_pool *pool, ph__block *block)
{
    if (memory->released.count == 0 || !works_on_any(memory) || !overlaps(memory, block))
        return false;
    ph__memory_hand_out(memory, pool, block);
    ph__memory_retire(memory, block, ph__mseg_of(block)->stream);
    ph__born_wait(memory, block);
    return true;
}
