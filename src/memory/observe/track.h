/* SPDX-License-Identifier: MIT */
/* memory/observe/track.h: allocations that graphs track, and whether they still live. */
#ifndef PH_MEMORY_OBSERVE_TRACK_H
#define PH_MEMORY_OBSERVE_TRACK_H
#include "memory/state/free_counter.h"
#include <phonograph/memory.h>

typedef enum ph__tracking {
    PH__TRACK_GONE = 0, /* not that allocation any more */
    PH__TRACKS = 1,
    PH__TRACK_NO_MEMORY = 2
} ph__tracking;
/* Marks the allocation: when it is freed, ph__memory_free_count of the device grows, and so does
 * the count of the watch, where one is given. A watch must outlive what is tracked with it. */
ph__tracking ph__memory_track(ph_device *device, const void *base, uint64_t generation,
                              ph__watch *watch);
/* With the same generation and watch; a freed one is ignored. */
void ph__memory_untrack(ph_device *device, const void *base, uint64_t generation, ph__watch *watch);
uint64_t ph__memory_free_count(const ph_device *device); /* one atomic load */
bool ph__memory_is_live(const ph_device *device, const void *base, uint64_t generation);
/* Whether some announced block has the address. */
bool ph__memory_is_announced(const ph_device *device, const void *address);
#endif
