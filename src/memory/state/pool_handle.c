/* SPDX-License-Identifier: MIT */
/* memory/state/pool_handle.c: handles of pools that users got from a graph or an address. */
#include "memory/state/pool_handle.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"

void ph__pool_report_handle(ph_pool *pool)
{
    if (!pool)
        return;
    ph__memory_lock(pool->memory);
    pool->handle_reported = true;
    ph__spin_unlock(&pool->memory->lock);
}
