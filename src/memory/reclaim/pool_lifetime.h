/* SPDX-License-Identifier: MIT */
/* memory/reclaim/pool_lifetime.h: how long the object of a pool lives. */
#ifndef PH_MEMORY_RECLAIM_POOL_LIFETIME_H
#define PH_MEMORY_RECLAIM_POOL_LIFETIME_H
#include <phonograph/memory.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct ph__memory ph__memory;
bool ph__pool_init(ph_pool *pool, ph__memory *memory);
/* With the lock held; the object may be gone afterwards: *dead is then to be passed to
 * ph__pool_bury, without the lock. */
void ph__pool_unkeep(ph_pool *pool, ph_pool **dead);
void ph__pool_bury(ph_pool *dead); /* takes NULL */
/* of dead ones, but for the newest; no lock held */
void ph__pools_forget(ph__memory *memory, size_t kept);
void ph__pool_hold(ph_pool *pool); /* one more handle, capture or scope. Lock held */
#endif
