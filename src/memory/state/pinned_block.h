/* SPDX-License-Identifier: MIT */
/* memory/state/pinned_block.h: a pinned block: a power of two, with an allocation of its own at the
 * driver. */
#ifndef PH_MEMORY_STATE_PINNED_BLOCK_H
#define PH_MEMORY_STATE_PINNED_BLOCK_H
#include "base/vec.h"
#include "memory/state/stream_uses.h"

enum {
    PH__PINNED_CLASSES = 48
};

struct ph__pinned {
    uintptr_t address;
    size_t size, requested;
    unsigned size_class;
    uint64_t generation, capture_id; /* the capture that it was handed out in */
    uint64_t calls;                  /* of the device's captured_calls then */
    ph_stream *stream;               /* retained; NULL once its end is known to the uses */
    ph_pool *pool;
    ph__stream_uses *uses;
    unsigned trackers;
    bool free, freed_by_user; /* in a free list; freed, but waiting */
    /* its holders could not be recorded: held until the device is closed */
    bool held_for_good;
    PH__VEC(ph_pool *) holders; /* pools whose captures read it; each is kept */
    ph__pinned *next;           /* in a free list, the held list or a batch */
    ph__pinned *previous;       /* in a free list */
};
#endif
