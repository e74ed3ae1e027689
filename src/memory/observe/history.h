/* SPDX-License-Identifier: MIT */
/* memory/observe/history.h: the ring of events, for those who write it out. */
#ifndef PH_MEMORY_OBSERVE_HISTORY_H
#define PH_MEMORY_OBSERVE_HISTORY_H
#include "memory/state.h"

typedef struct ph__event {
    uint64_t time_ns;
    ph__happening what;
    uintptr_t address;
    size_t size;
    ph_pool_id pool;
    uint64_t stream, generation;
} ph__event;

struct ph__history {
    size_t capacity;
    uint64_t written; /* since it was switched on; the newest `capacity` of them are kept */
    ph__event at[];
};
#endif
