/* SPDX-License-Identifier: MIT */
/* memory/state/deaths.c: what of a moment's allocations has died since. An allocation that is
 * younger than all moments is not noted, so that there are never more notes than allocations
 * lived at moments that are still there. */
#include "memory/state/deaths.h"

enum {
    FEW = 64
};

void ph__death_note(ph__deaths *deaths, const ph_allocation *was, ph_pool_id pool_id)
{
    ph__death death = {.was = *was, .pool_id = pool_id, .number = ++deaths->number};
    death.was.pool = NULL;
    if (!ph__vec_push(&deaths->list, death))
        deaths->lost = death.number;
}

void ph__moment_add(ph__deaths *deaths, ph__moment *moment, uint64_t bound)
{
    *moment = (ph__moment){.previous = deaths->last, .at = ++deaths->number, .bound = bound};
    if (deaths->last)
        deaths->last->next = moment;
    else
        deaths->first = moment;
    deaths->last = moment;
    deaths->bound = bound;
}

/* Both lists are in order of their numbers: the latest moment before a death has the greatest
 * bound of those before it. */
static void drop_unasked(ph__deaths *deaths)
{
    const ph__moment *before = NULL, *next = deaths->first;
    size_t kept = 0;
    for (size_t i = 0; i < deaths->list.count; i++) {
        const ph__death *death = &deaths->list.at[i];
        for (; next && next->at < death->number; next = next->next)
            before = next;
        if (before && death->was.generation < before->bound)
            deaths->list.at[kept++] = *death;
    }
    deaths->list.count = deaths->kept = kept;
}

void ph__moment_remove(ph__deaths *deaths, ph__moment *moment)
{
    if (moment->previous)
        moment->previous->next = moment->next;
    else
        deaths->first = moment->next;
    if (moment->next)
        moment->next->previous = moment->previous;
    else
        deaths->last = moment->previous;
    deaths->bound = deaths->last ? deaths->last->bound : 0;
    if (deaths->first == NULL) {
        ph__vec_free(&deaths->list);
        deaths->kept = 0;
    } else if (deaths->list.count > 2 * deaths->kept + FEW) {
        drop_unasked(deaths);
    }
}
