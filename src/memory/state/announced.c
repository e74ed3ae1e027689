/* SPDX-License-Identifier: MIT */
/* memory/state/announced.c: the blocks of other allocators that were announced. */
#include "memory/state/announced.h"
#include "base/alloc.h"
#include "memory/state/find.h"
#include "memory/state/free_counter.h"
#include "memory/state/memory_state.h"

enum {
    ENDED_KEPT = 1 << 10
};

static void add_gone(ph__announcements *all, ph__announced *block)
{
    block->next = all->gone;
    all->gone = block;
}

/* The oldest of them makes room. */
static void keep_ended(ph__announcements *all, ph__announced *block)
{
    block->next = NULL;
    if (all->newest)
        all->newest->next = block;
    else
        all->oldest = block;
    all->newest = block;
    if (++all->ended <= ENDED_KEPT)
        return;
    ph__announced *oldest = all->oldest;
    all->oldest = oldest->next;
    all->ended--;
    add_gone(all, oldest);
}

static void note_block_end(ph__memory *memory, const ph__announced *block)
{
    const ph_allocation was = {.base = (void *)block->address,
                               .requested = block->size,
                               .size = block->size,
                               .generation = block->generation,
                               .pinned = block->pinned,
                               .foreign = true};
    const ph_pool_id none = {0, 0};
    ph__freed_list_add(&memory->freed, &was, none);
}

void ph__announced_end(ph__memory *memory, ph__announced *block, char *ended)
{
    ph__announcements *all = &memory->announced;
    (void)ph__range_map_remove(&all->blocks, block->address);
    if (block->generation < memory->freed.bound)
        note_block_end(memory, block);
    block->ended = ended;
    if (block->trackers == 0) {
        add_gone(all, block);
        return;
    }
    ph__free_counter_add(memory, block->generation);
    keep_ended(all, block);
}

void ph__announced_displace(ph__memory *memory, uintptr_t address, size_t size)
{
    for (;;) {
        const ph__range *next = ph__range_map_from(&memory->announced.blocks, address);
        if (!next || (next->base > address && next->base - address >= size))
            return;
        ph__announced_end(memory, next->value, NULL);
    }
}

bool ph__announced_add(ph__memory *memory, ph__announced *block)
{
    ph__announced_displace(memory, block->address, block->size);
    if (!ph__range_map_add(&memory->announced.blocks, block->address, block->size, block))
        return false;
    block->generation = ph__next_generation(memory);
    memory->skipped++; /* the allocator has not handed it out */
    ph__address_bounds_widen(block->pinned ? &memory->pinned_bounds : &memory->device_bounds,
                             block->address, block->size);
    return true;
}

ph__announced *ph__announced_find(const ph__memory *memory, uintptr_t address)
{
    const ph__range *range = ph__range_map_find(&memory->announced.blocks, address);
    return range ? range->value : NULL;
}

const ph__announced *ph__announced_known(const ph__memory *memory, const void *base,
                                         uint64_t generation)
{
    const ph__announced *block = ph__announced_find(memory, (uintptr_t)base);
    if (block && block->generation == generation)
        return block;
    for (block = memory->announced.oldest; block && block->generation != generation;)
        block = block->next;
    return block;
}

ph__announced *ph__announced_detach_gone(ph__memory *memory)
{
    ph__announced *gone = memory->announced.gone;
    memory->announced.gone = NULL;
    return gone;
}

void ph__announced_free(ph__announced *list)
{
    while (list) {
        ph__announced *next = list->next;
        ph__free(list->ended);
        ph__free(list);
        list = next;
    }
}

void ph__announced_close(ph__memory *memory)
{
    ph__announcements *all = &memory->announced;
    for (const ph__range *range = ph__range_map_from(&all->blocks, 0); range;
         range = ph__range_map_from(&all->blocks, range->base + range->size))
        add_gone(all, range->value);
    ph__range_map_free(&all->blocks);
    ph__announced_free(all->gone);
    ph__announced_free(all->oldest);
    *all = (ph__announcements){.gone = NULL};
}
