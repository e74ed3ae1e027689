/* SPDX-License-Identifier: MIT */
/* memory/state/free_counter.c: who hears that a tracked allocation was freed. */
#include "memory/state/free_counter.h"
#include "base/alloc.h"
#include "base/map.h"
#include "memory/state/memory_state.h"

/* ---- watches ---- who is to hear of the free of an allocation, by its generation. An entry
 * stays until it is untracked, also when the allocation has gone: thus freeing one gives nothing
 * back and allocates nothing, and no generation comes twice. */
struct ph__watcher {
    ph__watcher *next; /* of the same generation */
    ph__watch *watch;
    size_t times; /* tracked */
};

static ph__watcher *find_watcher(const ph__memory *memory, uint64_t generation,
                                 const ph__watch *watch)
{
    ph__watcher *watcher = ph__map_get(&memory->watchers, generation);
    while (watcher && watcher->watch != watch)
        watcher = watcher->next;
    return watcher;
}

bool ph__watcher_add(ph__memory *memory, uint64_t generation, ph__watch *watch, ph__watcher **fresh)
{
    ph__watcher *known = find_watcher(memory, generation, watch);
    if (known) {
        known->times++;
        return true;
    }
    if (*fresh == NULL)
        return false;
    ph__watcher *next = ph__map_get(&memory->watchers, generation);
    if (!ph__map_put(&memory->watchers, generation, *fresh))
        return false;
    **fresh = (ph__watcher){next, watch, 1};
    *fresh = NULL;
    return true;
}

ph__watcher *ph__watcher_remove(ph__memory *memory, uint64_t generation, const ph__watch *watch)
{
    ph__watcher *gone = find_watcher(memory, generation, watch);
    ph__watcher *first = ph__map_get(&memory->watchers, generation);
    if (gone == NULL || --gone->times > 0)
        return NULL;
    if (first != gone) {
        while (first->next != gone)
            first = first->next;
        first->next = gone->next;
    } else if (gone->next) {
        (void)ph__map_put(&memory->watchers, generation, gone->next); /* replaces: cannot fail */
    } else {
        (void)ph__map_remove(&memory->watchers, generation);
    }
    return gone;
}

ph__watcher *ph__watcher_create(void)
{
    return ph__alloc(sizeof(ph__watcher));
}

void ph__free_counter_add(ph__memory *memory, uint64_t generation)
{
    atomic_fetch_add_explicit(&memory->free_count, 1, memory_order_release);
    if (memory->watchers.count == 0)
        return;
    for (ph__watcher *at = ph__map_get(&memory->watchers, generation); at; at = at->next)
        atomic_fetch_add_explicit(&at->watch->free_count, 1, memory_order_release);
}

void ph__watchers_free(ph__memory *memory)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;
    while (ph__map_next(&memory->watchers, &cursor, &key, &value))
        for (ph__watcher *at = value, *next; at; at = next) {
            next = at->next;
            ph__free(at);
        }
    ph__map_free(&memory->watchers);
}
