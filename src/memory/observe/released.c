/* SPDX-License-Identifier: MIT */
/* memory/observe/released.c: which threads work on a capture; and what other threads allocated
 * and freed while it was open, which they may use again: it is noted, so that a node which
 * addresses it is found out. Lock held for all of it. */
#include "base/fork.h"
#include "memory/state.h"

/* Over the workers of all captures, whose pools may be of other devices. Taken last, with the
 * lock of a memory held. */
static ph__spinlock workers_lock;

static void lock_workers(void)
{
    ph__spin_lock(&workers_lock);
}

static void unlock_workers(void)
{
    ph__spin_unlock(&workers_lock);
}
PH__FORK_PART(.order = PH__FORK_WORKERS, .prepare = lock_workers, .parent = unlock_workers,
              .child = unlock_workers)

/* ---- threads ---- those that capture nothing allocate and free all the while, and would take ever
 * more memory if that waited. */
uint32_t ph__born_thread(void)
{
    return (uint32_t)ph__thread_id();
}

static bool is_worker(const ph_pool *pool, uint32_t thread)
{
    bool found = pool->worker == thread;
    for (size_t i = 0; i < pool->workers.count && !found; i++)
        found = pool->workers.at[i] == thread;
    return found;
}

bool ph__born_works(const ph_pool *pool, uint32_t thread)
{
    ph__spin_lock(&workers_lock);
    bool found = is_worker(pool, thread);
    ph__spin_unlock(&workers_lock);
    return found;
}

/* Without host memory the last one alone is known. */
void ph__born_work(ph_pool *pool)
{
    uint32_t thread = ph__born_thread();
    ph__spin_lock(&workers_lock);
    if (pool->worker != thread && !is_worker(pool, thread))
        (void)ph__vec_push(&pool->workers, thread);
    pool->worker = thread;
    ph__spin_unlock(&workers_lock);
}

void ph__born_no_work(ph_pool *pool)
{
    ph__spin_lock(&workers_lock);
    pool->workers.count = 0;
    pool->worker = 0;
    ph__spin_unlock(&workers_lock);
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
bool ph__born_is_captured_work(const ph__block *block)
{
    uint32_t thread = ph__born_thread();
    for (const ph_pool *pool = ph__recordings; pool; pool = pool->next_recording)
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
    for (const ph_pool *pool = ph__recordings; pool; pool = pool->next_recording)
        first = pool->born_from < first ? pool->born_from : first;
    const ph__range *one = ph__range_map_from(&memory->released, 0);
    while (one) {
        uintptr_t base = one->base, last = one->base + (one->size - 1);
        bool over = (uint64_t)(uintptr_t)one->value < first;
        if (over)
            (void)ph__range_map_remove(&memory->released, base);
        one = last == UINTPTR_MAX ? NULL : ph__range_map_from(&memory->released, last + 1);
    }
    memory->released_kept = memory->released.count;
}

bool ph__released_note(ph__memory *memory, const ph__block *block)
{
    if (memory->released.count >= 2 * memory->released_kept + 1024)
        ph__released_forget(memory);
    return ph__range_map_cover(&memory->released, block->address, block->size,
                               (void *)(uintptr_t)block->generation);
}

const ph__range *ph__released_find(const ph__memory *memory, uintptr_t address)
{
    return ph__range_map_find(&memory->released, address);
}

/* Takes it out of its heap, to be held: nobody has it. Lock held. NULL: somebody has some of it, or
 * there is no host memory. */
ph__block *ph__released_take(ph__memory *memory, const ph__range *released)
{
    bool no_memory;
    const ph__range *range = ph__range_map_find(&memory->segments, released->base);
    ph__segment *segment = range ? range->value : NULL;
    if (!segment)
        return NULL;
    ph_pool *pool = ((ph__mseg *)segment->user)->pool;
    ph__block *block = ph__heap_take_at(pool->heap, released->base, released->size, released->size,
                                        segment->stream, &no_memory);
    if (block)
        ph__memory_hand_out(memory, pool, block);
    return block;
}

/* ---- who works on a capture takes none of it ---- its blocks are its nodes' too, and what is
 * noted could not be told from them. */
static bool works_on_any(void)
{
    uint32_t thread = ph__born_thread();
    for (const ph_pool *pool = ph__recordings; pool; pool = pool->next_recording)
        if (ph__born_works(pool, thread))
            return true;
    return false;
}

static bool overlaps(const ph__memory *memory, const ph__block *block)
{
    const ph__range *one = ph__range_map_from(&memory->released, block->address);
    return one && one->base < block->address + block->size;
}

bool ph__released_avoid(ph__memory *memory, ph_pool *pool, ph__block *block)
{
    if (memory->released.count == 0 || !works_on_any() || !overlaps(memory, block))
        return false;
    ph__memory_hand_out(memory, pool, block);
    ph__memory_retire(memory, block, ph__mseg_of(block)->stream);
    ph__born_wait(memory, block);
    return true;
}
