/* SPDX-License-Identifier: MIT */
/* memory/state/segment.h: the memory of a segment, which the block core knows as numbers. */
#ifndef PH_MEMORY_STATE_SEGMENT_H
#define PH_MEMORY_STATE_SEGMENT_H
#include "memory/block/block.h"
#include <phonograph/memory.h>

/* The memory of a segment, which the block core knows as numbers. */
typedef struct ph__mseg {
    ph_pool *pool;
    ph_stream *stream; /* retained */
    uintptr_t address;
    size_t size;
    bool small;
    bool captured; /* a capture was given blocks of it: replays write it, whatever the core says */
    ph__segment *segment;
    struct ph__mseg *next;                        /* in a batch */
    struct ph__mseg *previous_there, *next_there; /* of the same stream, while it is in a heap */
    struct ph__mseg *previous_due, *next_due;     /* to be examined: see state/due.c */
    bool due;
} ph__mseg;

static inline ph__mseg *ph__mseg_of(const ph__block *block)
{
    return block->segment->user;
}
#endif
