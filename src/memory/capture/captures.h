/* SPDX-License-Identifier: MIT */
/* memory/capture/captures.h: the open captures of the process, and what was allocated meanwhile. */
#ifndef PH_MEMORY_CAPTURE_CAPTURES_H
#define PH_MEMORY_CAPTURE_CAPTURES_H
#include "memory/state/memory_state.h"

/* A capture into the pool is about to begin. all: the memories of the process, with their locks. */
void ph__born_begin(ph_pool *pool, ph__memory *all);
/* The graph of the capture has been read, or there is none. No lock held. Gives the memories, whose
 * devices are retained, of which ph__born_reclaim takes care then. */
ph__memory *ph__born_end(ph_pool *pool);
#endif
