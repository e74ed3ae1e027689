/* SPDX-License-Identifier: MIT */
/* memory/state/stream_uses.h: the record of which other streams use a block, and the state of the
 * block. */
#ifndef PH_MEMORY_STATE_STREAM_USES_H
#define PH_MEMORY_STATE_STREAM_USES_H
#include "device/device.h"
#include "memory/block/block.h"
#include <phonograph/memory.h>

typedef struct ph__memory ph__memory;
typedef struct ph__pinned ph__pinned;
typedef struct ph__batch ph__batch;

/* A record that waits for work on streams, and for how much of it still. finish: called once when
 * nothing is left; memory that leaves is put into *done. */
typedef struct ph__waiter ph__waiter;
struct ph__waiter {
    size_t left;
    void (*finish)(ph__memory *memory, ph__waiter *waiter, ph__batch **done);
};

/* A stream that uses a block beside the one that it was allocated on, or may use memory that is
 * given back. */
typedef struct ph__use {
    ph_stream *stream;    /* retained */
    uint64_t capture_id;  /* the use is captured work of this capture; 0: ordinary work */
    ph__drv_event *event; /* behind that work, once the block is freed; NULL: not recorded yet */
    struct ph__use *next; /* that waits for the same stream */
    ph__waiter *of;       /* from when it waits */
} ph__use;

typedef PH__VEC(ph__use) ph__use_list;

typedef enum ph__life {
    PH__LIVE,    /* in the caller's hands */
    PH__FREEING, /* a thread is freeing it just now, without the lock */
    /* freed; waits for captures to end, or for the captured graph to order its reuse */
    PH__DEFERRED,
    PH__PENDING, /* freed; waits for the events of its uses */
    PH__AWAITED, /* freed; a capture that is open may address it: born.c */
    PH__HELD     /* freed; in no list, until the last graph that addresses it goes */
} ph__life;

/* What hangs on a block (of either kind) that other streams use, from the first such use on. */
typedef struct ph__uses {
    ph__waiter waiter;                /* first */
    struct ph__uses *next, *previous; /* in the deferred list, or in a walk */
    struct ph__uses *beside;          /* in a walk, which waits for the same node */
    ph_pool *pool;
    ph__block *block; /* one of the two */
    ph__pinned *pinned;
    ph__life life;
    bool ordered;   /* a captured graph orders its reuse: no other capture is waited for */
    size_t holders; /* graphs that address it, and keep it from reuse */
    ph__use_list list, later; /* later: what comes while those of the list are waited for */
    /* the markers are the ends of all involved streams when it was freed, in this capture */
    uint64_t marker_capture;
    PH__VEC(ph__drv_node *) markers;
} ph__uses;

/* ph__block.user holds a ph__uses * and, in its low bits, how many trackers the block has (15:
 * that many or more, for good). Thus tracking needs no memory, and a plain block has NULL. */
#define PH__TRACKED ((uintptr_t)15)
static inline ph__uses *ph__block_uses(const ph__block *block)
{
    return (ph__uses *)((uintptr_t)block->user & ~PH__TRACKED);
}
static inline bool ph__block_is_live(const ph__block *block)
{
    const ph__uses *uses = ph__block_uses(block);
    return !uses || uses->life == PH__LIVE;
}
static inline void ph__block_set_uses(ph__block *block, ph__uses *uses)
{
    block->user = (void *)((uintptr_t)uses | ((uintptr_t)block->user & PH__TRACKED));
}
#endif
