/* SPDX-License-Identifier: MIT */
/* memory/state/history.h: the ring of events. Lock held; only with PH__SLOW_HISTORY. */
#ifndef PH_MEMORY_STATE_HISTORY_H
#define PH_MEMORY_STATE_HISTORY_H
#include "memory/state/memory_state.h"

typedef enum ph__happening {
    PH__ALLOC,
    PH__FREE,
    PH__SEGMENT_ALLOC,
    PH__SEGMENT_FREE,
    PH__OOM
} ph__happening;

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

void ph__history_note(ph__memory *memory, ph__happening what, uintptr_t address, size_t size,
                      const ph_pool *pool, const ph_stream *stream, uint64_t generation);
#endif
