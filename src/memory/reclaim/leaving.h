/* SPDX-License-Identifier: MIT */
/* memory/reclaim/leaving.h: which segments and pinned blocks may leave. */
#ifndef PH_MEMORY_RECLAIM_LEAVING_H
#define PH_MEMORY_RECLAIM_LEAVING_H
#include "memory/state/memory_state.h"

typedef enum ph__trim {
    PH__TRIM_ABANDONED, /* memory from which nobody can allocate any more */
    PH__TRIM_CACHED     /* and the default pool, and one more */
} ph__trim;
/* Moves segments and pinned blocks that may leave out of their heaps; they wait then. reclaim_lock
 * held, not the lock. false: no host memory. */
bool ph__leave(ph__memory *memory, ph__trim what, ph_pool *extra, int *failure,
               ph__leaving_batch **done);
#endif
