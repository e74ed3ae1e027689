/* SPDX-License-Identifier: MIT */
/* memory/state/pool_state.h: the state of a pool. */
#ifndef PH_MEMORY_STATE_POOL_STATE_H
#define PH_MEMORY_STATE_POOL_STATE_H
#include "memory/block/block.h"
#include "memory/state/account.h"
#include "memory/state/allocation.h"
#include "memory/state/pinned_block.h"
#include <phonograph/memory.h>

typedef struct ph__dependency_walk ph__dependency_walk;
typedef struct ph__replay_allocator ph__replay_allocator;

typedef enum ph__recording {
    PH__IDLE,
    PH__IN_SCOPE,
    PH__IN_CAPTURE
} ph__recording;

/* Where a stream's work ended. */
typedef struct ph__mark {
    uint64_t stream;
    ph__drv_event *event;
} ph__mark;

typedef struct ph__address_span {
    uintptr_t base;
    size_t size;
} ph__address_span;

/* use_count counts handles, captures and scopes; keeps counts what the object itself must
 * outlive: segments, pinned blocks, code in progress. The object goes when both are 0. */
struct ph_pool {
    /* Fields that every replay reads stand together. */
    ph__mutex replay_lock;
    bool replay_marked;
    ph_stream *last_replay; /* retained */
    _Atomic uint64_t epoch;
    PH__VEC(ph__mark)
    /* the work that the next replay comes behind: eager work on memory that captures received */
    before;
    ph__drv_event *replayed;              /* recorded behind the last replay when replay_marked */
    ph_pool *previous_there, *next_there; /* of those that were last replayed on the same stream */
    /* the pool is among those behind which an event is recorded */
    bool behind;

    ph__memory *memory;
    ph_device *device;        /* retained while use_count > 0; not by the default pool */
    ph_pool *previous, *next; /* next: also in the list of those that have gone */
    /* its user has it from a graph or an address, and may have it still when it has gone */
    bool handle_reported;
    ph_pool *previous_due, *next_due; /* all of it is to be examined: see state/due.c */
    bool due;
    uint64_t begun; /* the number of the capture that records into it, rising */
    ph__heap *heap;
    ph__heap_options heap_options;
    ph_pool_id id;
    ph_pool_options options;
    void (*ended)(void *user); /* told with options.user when the object goes; may be NULL */
    size_t use_count, keeps;
    size_t graphs; /* of use_count: captures that have not been released */
    size_t reserved, waiting;
    bool trim_wanted; /* asked for while a capture was open */
    ph__account account;

    ph__recording recording;
    ph_pool *outer_scope; /* the scope that this pool's one was opened in */
    ph_pool *next_route;  /* in the list of published captures */
    /* in the list of captures that are open or whose graph is being read */
    ph_pool *next_recording;
    uint64_t born_from;   /* later allocations, of any device, have a later generation */
    uint64_t born_handed; /* the value of ph__handed at that time */
    uint32_t worker;      /* the thread that worked on it last; at first the one that began it */
    /* all of them: those that allocate in it, or use blocks in it, too */
    PH__VEC(uint32_t) workers;
    /* of them, the blocks of device memory that the capture itself was given */
    uint64_t noted;
    uint64_t capture_id; /* published; 0: none */
    /* Of captures that other code began: the open one (0: none), and how many have not been
     * released. Under the lock. */
    uint64_t foreign_capture;
    size_t foreign_captures;
    PH__VEC(ph__address_span) capture_ranges;
    size_t capture_ranges_merged;           /* of them, at the last merge */
    ph__layout allocation_log;              /* of the open capture */
    ph__replay_allocator *replay_allocator; /* NULL: none; under the lock */
    ph__dependency_walk *walks;

    ph__pinned *pinned_free[PH__PINNED_CLASSES];
    ph__pinned *parked; /* freed ones of any pool, held because graphs hold this one */
};
#endif
