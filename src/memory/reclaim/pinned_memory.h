/* SPDX-License-Identifier: MIT */
/* memory/reclaim/pinned_memory.h: pinned memory from the driver and back. No lock held. */
#ifndef PH_MEMORY_RECLAIM_PINNED_MEMORY_H
#define PH_MEMORY_RECLAIM_PINNED_MEMORY_H
#include "memory/state/memory_state.h"

/* The driver's number. */
int ph__pinned_driver_alloc(void **out, ph__memory *memory, size_t bytes);
void ph__pinned_driver_free(ph__memory *memory, uintptr_t address);
/* Of a block that is in no list, and that no work uses. cache: it serves later requests, of any
 * pool. destroy: back to the driver, which waits for all work of the device. */
void ph__pinned_cache(ph__memory *memory, ph__pinned *block);
void ph__pinned_destroy(ph__memory *memory, ph__pinned *block);
/* The block is the pool's, and in no list. Lock held; *dead: see ph__pool_unkeep. */
void ph__pinned_move(ph__pinned *block, ph_pool *pool, ph_pool **dead);
void ph__pinned_close(ph__memory *memory); /* at the end: all of them */
#endif
