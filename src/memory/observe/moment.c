/* SPDX-License-Identifier: MIT */
/* memory/observe/moment.c: the allocations of a device as they were at a moment. */
#include "memory/observe/moment.h"
#include "memory/observe/lookup.h"
#include "memory/state/find.h"
#include "memory/state/memory_state.h"
#include "memory/state/pool_handle.h"
#include "memory/state/short_cycle.h"
#include <string.h>

bool ph__moment_begin(ph__moment *moment, const ph_device *device)
{
    ph__memory *memory = ph__memory_of(device);
    *moment = (ph__moment){0};
    if (!memory)
        return true;
    ph__memory_lock(memory);
    bool plain = memory->replay_allocators == NULL;
    if (plain)
        ph__moment_add(&memory->freed, moment, memory->generation);
    ph__spin_unlock(&memory->lock);
    return plain;
}

void ph__moment_end(ph__moment *moment, const ph_device *device)
{
    ph__memory *memory = ph__memory_of(device);
    if (moment->at == 0 || !memory)
        return;
    ph__memory_lock(memory);
    ph__moment_remove(&memory->freed, moment);
    ph__spin_unlock(&memory->lock);
    *moment = (ph__moment){0};
}

/* ---- a look ---- */
static bool is_freed_since(const ph__freed_allocation *block, const ph__moment *moment)
{
    return block->number > moment->at && block->was.generation < moment->bound;
}

bool ph__past_open(ph__past *past, const ph__moment *moment, const ph_device *device)
{
    ph__memory *memory = ph__memory_of(device);
    *past = (ph__past){.device = device, .moment = moment};
    if (moment->at == 0 || !memory)
        return true;
    ph__memory_lock(memory);
    const ph__freed_list *freed = &memory->freed;
    bool copied = freed->lost < moment->at && ph__vec_reserve(&past->freed, freed->list.count);
    for (size_t i = 0; i < freed->list.count && copied; i++)
        if (is_freed_since(&freed->list.at[i], moment))
            past->freed.at[past->freed.count++] = freed->list.at[i];
    past->seen = freed->number;
    ph__spin_unlock(&memory->lock);
    for (size_t i = 0; i < past->freed.count && copied; i++) {
        const ph_allocation *was = &past->freed.at[i].was;
        copied = ph__range_map_add(&past->gone, (uintptr_t)was->base, was->size,
                                   (void *)(uintptr_t)(i + 1));
    }
    return copied;
}

void ph__past_close(ph__past *past)
{
    ph__vec_free(&past->freed);
    ph__range_map_free(&past->gone);
}

/* Few are freed while a look is open. Lock held. */
static const ph__freed_allocation *find_freed_late(const ph__past *past,
                                                   const ph__freed_list *freed, uintptr_t address)
{
    for (size_t i = freed->list.count; i-- > 0 && freed->list.at[i].number > past->seen;) {
        const ph__freed_allocation *block = &freed->list.at[i];
        if (is_freed_since(block, past->moment) &&
            address - (uintptr_t)block->was.base < block->was.size)
            return block;
    }
    return NULL;
}

static void find_freed(ph_allocation *out, ph_pool_id *pool, const ph__past *past,
                       const ph__freed_list *freed, uintptr_t address)
{
    const ph__range *range = past->gone.count ? ph__range_map_find(&past->gone, address) : NULL;
    const ph__freed_allocation *block = range ? &past->freed.at[(uintptr_t)range->value - 1]
                                              : find_freed_late(past, freed, address);
    *out = block ? block->was : (ph_allocation){.base = NULL};
    *pool = block ? block->pool_id : (ph_pool_id){0, 0};
}

void ph__past_find(ph_allocation *out, ph_pool_id *pools, const ph__past *past,
                   const uintptr_t *addresses, size_t count)
{
    ph__memory *memory = ph__memory_of(past->device);
    if (past->moment->at == 0 || !memory) { /* nothing was allocated then */
        memset(out, 0, count * sizeof *out);
        memset(pools, 0, count * sizeof *pools);
        return;
    }
    ph__memory_lock(memory);
    ph__memory_find_locked(out, memory, addresses, count);
    for (size_t i = 0; i < count; i++)
        if (out[i].base && out[i].generation < past->moment->bound)
            pools[i] = out[i].pool ? out[i].pool->id : (ph_pool_id){0, 0};
        else
            find_freed(&out[i], &pools[i], past, &memory->freed, addresses[i]);
    ph__spin_unlock(&memory->lock);
}
