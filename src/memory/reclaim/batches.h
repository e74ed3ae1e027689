/* SPDX-License-Identifier: MIT */
/* memory/reclaim/batches.h: memory that has left its heaps and waits for the work that may still
 * use it. */
#ifndef PH_MEMORY_RECLAIM_BATCHES_H
#define PH_MEMORY_RECLAIM_BATCHES_H
#include "base/map.h"
#include "memory/state/memory_state.h"

/* Memory that has left its heap and waits; or allocations of another device, which are held until
 * the work that is waited for is done. One thread at a time, under `reclaim_lock`. */
struct ph__leaving_batch {
    ph__waiter waiter; /* first */
    ph__leaving_batch *previous, *next;
    ph__mseg *segments;
    ph__pinned *pinned;
    ph_device *elsewhere;     /* retained; NULL: none */
    ph__map held;             /* of it: generation -> base */
    PH__VEC(ph__use) streams; /* the streams that it waits for */
};

/* reclaim_lock held, as for the next one: what is held elsewhere knows its streams; of the others
 * it is found out. Batches that wait for nothing are put into *done. */
void ph__batches_wait(ph__memory *memory, int *failure, ph__leaving_batch **done);
/* The ph__waiter.finish of a batch. */
void ph__batch_done(ph__memory *memory, ph__waiter *waiter, ph__leaving_batch **done);
/* Takes NULL. No lock held. keep_pinned: for calls that must not wait, as the driver waits for the
 * device to free pinned memory, which is cached instead. */
void ph__give_back(ph__memory *memory, ph__leaving_batch *done, bool keep_pinned);
void ph__batches_destroy(ph__memory *memory); /* at the end: nothing runs any more */
/* Lets go at once of all that is held of the device, and empties the map. No lock held. */
void ph__held_release(ph_device *device, ph__map *held);
#endif
