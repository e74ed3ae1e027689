/* SPDX-License-Identifier: MIT */
/* memory/state/memories.c: the memories of the process: found by address, locked together, and what
 * a child of fork() knows of its parent's. */
#include "memory/state/memories.h"
#include "base/fork.h"
#include "base/map.h"
#include "base/range_map.h"
#include "driver/forked.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"

/* All memories of the process, for calls that have an address and no device. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static ph__memory *all;

ph_pool *ph__recordings;

/* Retains a device that may be on its way out: false when it is. */
static bool try_retain(ph_device *device)
{
    int count = atomic_load(&device->references);
    while (count > 0)
        if (atomic_compare_exchange_weak(&device->references, &count, count + 1))
            return true;
    return false;
}

bool ph__memory_try_retain(const ph__memory *memory)
{
    return try_retain(memory->device);
}

ph__memory *ph__memory_of_address(uintptr_t address)
{
    ph__memory *found = NULL;
    pthread_mutex_lock(&all_lock);
    for (ph__memory *memory = all; memory && !found; memory = memory->next_memory) {
        ph__memory_lock(memory);
        bool here = ph__range_map_find(&memory->segments, address) ||
                    ph__range_map_find(&memory->pinned, address);
        ph__spin_unlock(&memory->lock);
        if (here && try_retain(memory->device))
            found = memory;
    }
    pthread_mutex_unlock(&all_lock);
    return found;
}

bool ph__pool_is_there(const ph_pool *pool)
{
    bool there = false;
    pthread_mutex_lock(&all_lock);
    for (ph__memory *memory = all; memory && !there; memory = memory->next_memory) {
        ph__memory_lock(memory);
        there = memory->pools.count > 0 &&
                ph__map_get(&memory->pools, (uint64_t)(uintptr_t)pool) != NULL;
        ph__spin_unlock(&memory->lock);
    }
    pthread_mutex_unlock(&all_lock);
    return there;
}

void ph__memories_set_slow_path(unsigned flag, bool on)
{
    pthread_mutex_lock(&all_lock);
    for (ph__memory *memory = all; memory; memory = memory->next_memory) {
        ph__memory_lock(memory);
        ph__set_slow_path(memory, flag, on);
        ph__spin_unlock(&memory->lock);
    }
    pthread_mutex_unlock(&all_lock);
}

/* ---- all of them ---- */
static void lock_memories(void)
{
    for (ph__memory *memory = all; memory; memory = memory->next_memory)
        ph__memory_lock(memory);
}

static void unlock_memories(void)
{
    for (ph__memory *memory = all; memory; memory = memory->next_memory)
        ph__spin_unlock(&memory->lock);
}

ph__memory *ph__memories_begin(void)
{
    pthread_mutex_lock(&all_lock);
    return all;
}

void ph__memories_end(void)
{
    pthread_mutex_unlock(&all_lock);
}

ph__memory *ph__memories_lock(void)
{
    pthread_mutex_lock(&all_lock);
    lock_memories();
    return all;
}

void ph__memories_unlock(void)
{
    unlock_memories();
    pthread_mutex_unlock(&all_lock);
}

/* ---- fork ---- what an allocation is changes under the memories' locks, so that they come across
 * whole. */

/* The parent's: their addresses are known, and nothing is done with them. */
static ph__memory *all_forked;

static void abandon_memories(void)
{
    unlock_memories();
    for (ph__memory *memory = all, *next; memory; memory = next) {
        next = memory->next_memory;
        memory->driver = &ph__driver_forked;
        pthread_mutex_init(&memory->reclaim_lock, NULL);
        for (ph_pool *pool = &memory->default_pool; pool; pool = pool->next)
            pool->replay_lock = (ph__mutex){0};
        memory->next_memory = all_forked;
        all_forked = memory;
    }
    all = NULL;
    ph__recordings = NULL;
}
PH__FORK_PART(.order = PH__FORK_MEMORIES, .lock = &all_lock, .prepare = lock_memories,
              .parent = unlock_memories, .child = abandon_memories)

bool ph__memory_is_forked(uintptr_t address)
{
    bool found = false;
    pthread_mutex_lock(&all_lock);
    for (const ph__memory *memory = all_forked; memory && !found; memory = memory->next_memory)
        found = ph__range_map_find(&memory->segments, address) ||
                ph__range_map_find(&memory->pinned, address);
    pthread_mutex_unlock(&all_lock);
    return found;
}

bool ph__pool_is_forked(const ph_pool *pool)
{
    bool found = false;
    pthread_mutex_lock(&all_lock);
    for (const ph__memory *memory = all_forked; memory && !found; memory = memory->next_memory)
        found = memory->pools.count > 0 && ph__map_get(&memory->pools, (uint64_t)(uintptr_t)pool);
    pthread_mutex_unlock(&all_lock);
    return found;
}

void ph__memories_add(ph__memory *memory)
{
    memory->next_memory = all;
    all = memory;
}

void ph__memories_remove(ph__memory *memory)
{
    pthread_mutex_lock(&all_lock);
    ph__memory **at = &all;
    while (*at != memory)
        at = &(*at)->next_memory;
    *at = memory->next_memory;
    pthread_mutex_unlock(&all_lock);
}
