/* SPDX-License-Identifier: MIT */
/* memory/reclaim/cached.h: a cached block for a request. */
#ifndef PH_MEMORY_RECLAIM_CACHED_H
#define PH_MEMORY_RECLAIM_CACHED_H
#include "memory/state/memory_state.h"
#include "memory/state/request.h"

/* Takes a cached block, counts it and gives it a generation. NULL: none, or *no_memory. Lock
 * held. */
ph__block *ph__cached_block_acquire(ph__memory *memory, const ph__request *request,
                                    bool *no_memory);
#endif
