/* SPDX-License-Identifier: MIT */
/* memory/state/free_counter.h: how many tracked allocations were freed, and who watches which of
 * them. */
#ifndef PH_MEMORY_STATE_FREE_COUNTER_H
#define PH_MEMORY_STATE_FREE_COUNTER_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ph__watch {
    _Atomic uint64_t free_count;
} ph__watch;

typedef struct ph__memory ph__memory;
typedef struct ph__watcher ph__watcher;

/* A tracked allocation has left the caller's hands. Lock held; allocates and frees nothing. */
void ph__free_counter_add(ph__memory *memory, uint64_t generation);
/* The size of an entry, for who makes one without the lock. */
ph__watcher *ph__watcher_create(void);
/* Takes *fresh when a new entry is needed. Lock held. */
bool ph__watcher_add(ph__memory *memory, uint64_t generation, ph__watch *watch,
                     ph__watcher **fresh);
/* The entry that is to be freed, or NULL. Lock held. */
ph__watcher *ph__watcher_remove(ph__memory *memory, uint64_t generation, const ph__watch *watch);
void ph__watchers_free(ph__memory *memory);
#endif
