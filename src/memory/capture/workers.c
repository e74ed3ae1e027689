/* SPDX-License-Identifier: MIT */
/* memory/capture/workers.c: the threads that work on a capture. */
#include "memory/capture/workers.h"
#include "base/fork.h"
#include "base/vec.h"
#include "memory/block/block.h"
#include "memory/state/handout.h"
#include "memory/state/memories.h"
#include "memory/state/memory_state.h"

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
