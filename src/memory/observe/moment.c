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
        ph__moment_add(&memory->deaths, moment, memory->generation);
    ph__spin_unlock(&memory->lock);
    return plain;
}

void ph__moment_end(ph__moment *moment, const ph_device *device)
{
    ph__memory *memory = ph__memory_of(device);
    if (moment->at == 0 || !memory)
        return;
    ph__memory_lock(memory);
    ph__moment_remove(&memory->deaths, moment);
    ph__spin_unlock(&memory->lock);
    *moment = (ph__moment){0};
}

/* ---- a look ---- */
static bool is_asked(const ph__death *death, const ph__moment *moment)
{
    return death->number > moment->at && death->was.generation < moment->bound;
}

bool ph__past_open(ph__past *past, const ph__moment *moment, const ph_device *device)
{
    ph__memory *memory = ph__memory_of(device);
    *past = (ph__past){.device = device, .moment = moment};
    if (moment->at == 0 || !memory)
        return true;
    ph__memory_lock(memory);
    const ph__deaths *deaths = &memory->deaths;
    bool copied = deaths->lost < moment->at && ph__vec_reserve(&past->deaths, deaths->list.count);
    for (size_t i = 0; i < deaths->list.count && copied; i++)
        if (is_asked(&deaths->list.at[i], moment))
            past->deaths.at[past->deaths.count++] = deaths->list.at[i];
    past->seen = deaths->number;
    ph__spin_unlock(&memory->lock);
    for (size_t i = 0; i < past->deaths.count && copied; i++) {
        const ph_allocation *was = &past->deaths.at[i].was;
        copied = ph__range_map_add(&past->gone, (uintptr_t)was->base, was->size,
                                   (void *)(uintptr_t)(i + 1));
    }
    return copied;
}

void ph__past_close(ph__past *past)
{
    ph__vec_free(&past->deaths);
    ph__range_map_free(&past->gone);
}

/* Few die while a look is open. Lock held. */
static const ph__death *find_late(const ph__past *past, const ph__deaths *deaths, uintptr_t address)
{
    for (size_t i = deaths->list.count; i-- > 0 && deaths->list.at[i].number > past->seen;) {
        const ph__death *death = &deaths->list.at[i];
        if (is_asked(death, past->moment) && address - (uintptr_t)death->was.base < death->was.size)
            return death;
    }
    return NULL;
}

static void find_dead(ph_allocation *out, ph_pool_id *pool, const ph__past *past,
                      const ph__deaths *deaths, uintptr_t address)
{
    const ph__range *range = past->gone.count ? ph__range_map_find(&past->gone, address) : NULL;
    const ph__death *death =
        range ? &past->deaths.at[(uintptr_t)range->value - 1] : find_late(past, deaths, address);
    *out = death ? death->was : (ph_allocation){.base = NULL};
    *pool = death ? death->pool_id : (ph_pool_id){0, 0};
}

void ph__past_find(ph_allocation *out, ph_pool_id *pools, const ph__past *past,
                   const uintptr_t *addresses, size_t count)
{
    ph__memory *memory = ph__memory_of(past->device);
    memset(out, 0, count * sizeof *out);
    memset(pools, 0, count * sizeof *pools);
    if (past->moment->at == 0 || !memory) /* nothing lived then */
        return;
    ph__memory_lock(memory);
    ph__memory_find_locked(out, memory, addresses, count);
    for (size_t i = 0; i < count; i++)
        if (out[i].base && out[i].generation < past->moment->bound)
            pools[i] = out[i].pool ? out[i].pool->id : (ph_pool_id){0, 0};
        else
            find_dead(&out[i], &pools[i], past, &memory->deaths, addresses[i]);
    ph__spin_unlock(&memory->lock);
}
