/* SPDX-License-Identifier: MIT */
/* memory/plan/plan.h: the plan of runs, and the check of those that followed. No lock held. */
#ifndef PH_MEMORY_PLAN_PLAN_H
#define PH_MEMORY_PLAN_PLAN_H
#include "memory/plan/offsets.h"
#include "memory/state/allocation.h"

/* Zero is empty. */
typedef struct ph__memory_plan {
    ph__plan_block *blocks; /* in the order of the requests */
    size_t count, inside;   /* inside: those that have an offset */
    size_t bytes, bound;    /* of those; bound: the largest sum alive at once */
    size_t left, events;    /* bytes alive at the end; of the notes */
    ph__conflicts conflicts;
} ph__memory_plan;

extern const char ph__memory_plan_empty[]; /* why there is none where nothing was allocated */

/* Reads the blocks of a run, and which of them conflict. The capture is open.
 * - Left out are blocks that a graph holds, and blocks that are left on another stream than `own`:
 *   they become allocations, and those belong to a stream.
 * - NULL, or why there is no plan. */
const char *ph__memory_plan_read(ph__memory_plan *out, const ph__plan_notes *notes, uint64_t own);
/* One plan for runs of several captures, whose graphs run in that order and never at once: what one
 * leaves is alive in all that follow. Each gets its offsets. NULL, or why there is no plan. */
const char *ph__memory_plan_place(ph__memory_plan *all, ph__memory_plan *runs, size_t count);
/* The capture is open. Whether the run whose requests were served by the plan may stay: no two
 * blocks that overlap conflict in its own graph. NULL, or why not. */
const char *ph__memory_plan_check(const ph__memory_plan *plan, const ph__plan_notes *first,
                                  const ph__plan_notes *second);
/* Adds to the allocation log that a replay allocator serves: address 0 for those left out. false:
 * no host memory. */
bool ph__memory_plan_log(ph__layout *out, const ph__memory_plan *plan, const ph__plan_notes *notes,
                         uintptr_t base);
void ph__memory_plan_free(ph__memory_plan *plan);
#endif
