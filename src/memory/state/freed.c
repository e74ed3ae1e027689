/* SPDX-License-Identifier: MIT */
/* memory/state/freed.c: which of a moment's allocations were freed since. An allocation that is
 * younger than all moments is not noted, so that there are never more notes than allocations
 * lived at moments that are still there. */
#include "memory/state/freed.h"

enum {
    FEW = 64
};

void ph__freed_list_add(ph__freed_list *freed, const ph_allocation *was, ph_pool_id pool_id)
{
    ph__freed_allocation block = {.was = *was, .pool_id = pool_id, .number = ++freed->number};
    block.was.pool = NULL;
    if (!ph__vec_push(&freed->list, block))
        freed->lost = block.number;
}

void ph__moment_add(ph__freed_list *freed, ph__moment *moment, uint64_t bound)
{
    *moment = (ph__moment){.previous = freed->last, .at = ++freed->number, .bound = bound};
    if (freed->last)
        freed->last->next = moment;
    else
        freed->first = moment;
    freed->last = moment;
    freed->bound = bound;
}

/* Both lists are in order of their numbers: the latest moment before a free has the greatest
 * bound of those before it. */
static void drop_unneeded(ph__freed_list *freed)
{
    const ph__moment *before = NULL, *next = freed->first;
    size_t kept = 0;
    for (size_t i = 0; i < freed->list.count; i++) {
        const ph__freed_allocation *block = &freed->list.at[i];
        for (; next && next->at < block->number; next = next->next)
            before = next;
        if (before && block->was.generation < before->bound)
            freed->list.at[kept++] = *block;
    }
    freed->list.count = freed->kept = kept;
}

void ph__moment_remove(ph__freed_list *freed, ph__moment *moment)
{
    if (moment->previous)
        moment->previous->next = moment->next;
    else
        freed->first = moment->next;
    if (moment->next)
        moment->next->previous = moment->previous;
    else
        freed->last = moment->previous;
    freed->bound = freed->last ? freed->last->bound : 0;
    if (freed->first == NULL) {
        ph__vec_free(&freed->list);
        freed->kept = 0;
    } else if (freed->list.count > 2 * freed->kept + FEW) {
        drop_unneeded(freed);
    }
}
