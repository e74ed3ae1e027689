/* SPDX-License-Identifier: MIT */
/* memory/state/stream_uses.h: the record of which other streams use a block, and the state of the
 * block. */
#ifndef PH_MEMORY_STATE_STREAM_USES_H
#define PH_MEMORY_STATE_STREAM_USES_H
#include "memory/block/block.h"
#include <phonograph/memory.h>

typedef struct ph__memory ph__memory;
typedef struct ph__pinned ph__pinned;
typedef struct ph__leaving_batch ph__leaving_batch;

/* A record that waits for work on streams, and for how much of it still. finish: called once when
 * nothing is left; memory that leaves is put into *done. */
typedef struct ph__waiter ph__waiter;
struct ph__waiter {
    size_t left;
    void (*finish)(ph__memory *memory, ph__waiter *waiter, ph__leaving_batch **done);
};

/* A stream that uses a block beside the one that it was allocated on, or may use memory that is
 * given back. */
typedef struct ph__use {
    ph_stream *stream;    /* retained */
    uint64_t capture_id;  /* the use is captured work of this capture; 0: ordinary work */
    bool older;           /* the block is older than that capture: other work may be on it */
    ph__drv_event *event; /* behind that work, once the block is freed; NULL: not recorded yet */
    struct ph__use *next; /* the next use that waits for the same stream */
    ph__waiter *of;       /* from when it waits */
} ph__use;

typedef PH__VEC(ph__use) ph__stream_use_list;

typedef enum ph__block_state {
    PH__BLOCK_LIVE,    /* in the caller's hands */
    PH__BLOCK_FREEING, /* a thread is freeing it just now, without the lock */
    /* freed; waits for captures to end, or for the captured graph to order its reuse */
    PH__BLOCK_DEFERRED,
    PH__BLOCK_PENDING, /* freed; waits for the events of its uses */
    PH__BLOCK_AWAITED, /* freed; a capture that is open may address it: capture/born.c */
    PH__BLOCK_HELD     /* freed; in no list, until the last graph that addresses it goes */
} ph__block_state;

/* The record that hangs on a block, of either kind, from the first use by another stream on. */
typedef struct ph__stream_uses {
    ph__waiter waiter;                       /* first */
    struct ph__stream_uses *next, *previous; /* in the deferred list, or in a walk */
    struct ph__stream_uses *beside;          /* in a walk, which waits for the same node */
    ph_pool *pool;
    ph__block *block; /* one of the two */
    ph__pinned *pinned;
    ph__block_state state;
    bool ordered;   /* a captured graph orders its reuse: no other capture is waited for */
    size_t holders; /* graphs that address it, and keep it from reuse */
    ph__stream_use_list list, later; /* later: what comes while those of the list are waited for */
    /* the markers are the ends of all involved streams when it was freed, in this capture */
    uint64_t marker_capture;
    PH__VEC(ph__drv_node *) markers;
} ph__stream_uses;

/* ph__block.user holds a ph__stream_uses * and, in its low bits, how many trackers the block has
 * (15: that many or more, for good). Thus tracking needs no memory, and a plain block has NULL. */
#define PH__TRACKED ((uintptr_t)15)
static inline ph__stream_uses *ph__block_stream_uses(const ph__block *block)
{
    return (ph__stream_uses *)((uintptr_t)block->user & ~PH__TRACKED);
}
static inline bool ph__block_is_live(const ph__block *block)
{
    const ph__stream_uses *uses = ph__block_stream_uses(block);
    return !uses || uses->state == PH__BLOCK_LIVE;
}
static inline void ph__block_set_stream_uses(ph__block *block, ph__stream_uses *uses)
{
    block->user = (void *)((uintptr_t)uses | ((uintptr_t)block->user & PH__TRACKED));
}
#endif
