/* SPDX-License-Identifier: MIT */
/* memory/state/pool_handle.h: handles of pools that users got from a graph or an address. */
#ifndef PH_MEMORY_STATE_POOL_HANDLE_H
#define PH_MEMORY_STATE_POOL_HANDLE_H
#include <phonograph/memory.h>

/* The user of the pool has its handle from now on, and may have it still when the pool has gone:
 * its address is given to no other pool for some time. Takes NULL. */
void ph__pool_report_handle(ph_pool *pool);
#endif
