/* SPDX-License-Identifier: MIT */
/* memory/state/announced.h: the blocks of other allocators that were announced (the public part is
 * phonograph/foreign.h). Lock held in all calls but free. */
#ifndef PH_MEMORY_STATE_ANNOUNCED_H
#define PH_MEMORY_STATE_ANNOUNCED_H
#include "base/range_map.h"
#include <stdbool.h>

typedef struct ph__memory ph__memory;

typedef struct ph__announced {
    struct ph__announced *next; /* in one of the lists below */
    uintptr_t address;
    size_t size;
    uint64_t generation;
    size_t trackers;
    bool pinned;
    char *ended; /* the text of its end; NULL: none */
    char label[];
} ph__announced;

/* Of one device. Zero is empty. */
typedef struct ph__announcements {
    ph__range_map blocks; /* values are ph__announced */
    /* ended ones that graphs tracked: for messages */
    ph__announced *oldest, *newest;
    size_t ended;
    ph__announced *gone; /* nobody's: freed where no lock is held */
} ph__announcements;

/* Gives it a generation, and ends those that it overlaps. false: no host memory. */
bool ph__announced_add(ph__memory *memory, ph__announced *block);
/* The caller's `ended` becomes the block's. */
void ph__announced_end(ph__memory *memory, ph__announced *block, char *ended);
/* Ends those that overlap memory which the allocator has taken. */
void ph__announced_displace(ph__memory *memory, uintptr_t address, size_t size);
/* The block around the address, or NULL. */
ph__announced *ph__announced_find(const ph__memory *memory, uintptr_t address);
/* The block of that generation whose memory begins at base, in use or ended; NULL: not known. */
const ph__announced *ph__announced_known(const ph__memory *memory, const void *base,
                                         uint64_t generation);
/* Blocks that nobody knows any more; they are the caller's. */
ph__announced *ph__announced_detach_gone(ph__memory *memory);
void ph__announced_free(ph__announced *list); /* no lock held */
void ph__announced_close(ph__memory *memory); /* at the end of the device */
#endif
