/* SPDX-License-Identifier: MIT */
/* memory/capture/replay_allocator.h: requests that a replay allocator answers; alloc/replay_run.h
 * says what that is. */
#ifndef PH_MEMORY_CAPTURE_REPLAY_ALLOCATOR_H
#define PH_MEMORY_CAPTURE_REPLAY_ALLOCATOR_H
#include "memory/state/memory_state.h"
#include "memory/state/request.h"

/* One block of the log, in the run. owed: the block that is there was freed by the
 * run, as one that came before: it is given again, or goes at the end. */
typedef struct ph__part {
    const ph__logged_allocation *entry;
    struct ph__part *next; /* of its line */
    bool used, held, owed;
    uint64_t generation;
    uintptr_t trackers; /* as of a block: stream_uses.h */
} ph__part;

struct ph__replay_allocator {
    ph__replay_allocator *next; /* in the memory's list, under its lock, as is all of it */
    ph__memory *memory;
    ph_pool *pool, *home; /* whose requests are answered; whose blocks the log is of */
    const ph__layout *log;
    uint64_t from, to; /* streams: the log's `from` is the run's `to` */
    uint64_t thread;
    ph__part *parts;
    /* Parts that are alike to requests, which need not examine all others: key -> one of heads,
     * from which the parts come in the order of the log, until they are used. */
    ph__map lines;
    ph__part **heads;
    ph__ranges live; /* blocks that the run received and has not freed -> part; room for all */
    ph__map at;      /* address -> one of the parts that begin there */
    bool skip_held;
    /* The n-th request gets the n-th block, where it asks for the same; address 0: as any request.
     * The first other one ends that. */
    bool ordered, ended;
    size_t asked;     /* of them, so far */
    ph__block *arena; /* the block in which all of them lie; NULL: they lie in the heap's own */
    size_t missed, missed_bytes, examined;
};

/* Where the parts begin that are alike to the entry, or NULL. Lock held. */
uint64_t ph__replay_allocator_key(size_t requested, uint64_t stream, bool pinned);
ph__part **ph__replay_allocator_head(const ph__replay_allocator *allocator,
                                     const ph__logged_allocation *entry);

/* Answers the request. false: the pool has no such allocator, or no block of it fits. address 0:
 * anywhere. No lock held. */
bool ph__replay_allocator_acquire(void **out, ph__memory *memory, const ph__request *request,
                                  uintptr_t address, bool pinned);
/* The block around the address that such an allocator has given. Lock held. */
bool ph__replay_allocator_find(ph_allocation *out, const ph__memory *memory, uintptr_t address);
/* A block begins at base in which parts lie: no allocation of anybody's. Lock held. */
bool ph__replay_allocator_has_arena(const ph__memory *memory, const void *base);
/* The part that is live and begins at base, or NULL. Lock held. */
ph__part *ph__replay_allocator_live(const ph__memory *memory, const void *base);
/* The pointer is such a block; costs one load where there is none. No lock held. */
bool ph__replay_allocator_knows(ph__memory *memory, const void *pointer);
/* The block in which such a block lies, where they have one of their own; NULL: it does not. It
 * notes the uses by other streams, until the allocator's end. No lock held. */
void *ph__replay_allocator_arena_at(ph__memory *memory, const void *pointer);
/* Frees it. false: no such allocator is about it. No lock held. */
bool ph__replay_allocator_free(ph__memory *memory, const void *pointer);
#endif
