/* SPDX-License-Identifier: MIT */
/* memory/state/pinned_lists.c: the free lists of pinned blocks. */
#include "memory/state/pinned_lists.h"
#include "memory/state/due.h"
#include "memory/state/pinned_block.h"

void ph__pinned_unfree(ph__pinned *block)
{
    if (block->previous)
        block->previous->next = block->next;
    else
        block->pool->pinned_free[block->size_class] = block->next;
    if (block->next)
        block->next->previous = block->previous;
    block->next = block->previous = NULL;
    block->free = false;
    block->freed_by_user = true;
}

/* ---- giving back ---- */

void ph__pinned_give(ph__pinned *block)
{
    ph_pool *pool = block->pool;
    block->free = true;
    block->freed_by_user = false;
    block->previous = NULL;
    block->next = pool->pinned_free[block->size_class];
    if (block->next)
        block->next->previous = block;
    pool->pinned_free[block->size_class] = block;
    if (pool->use_count == 0)
        ph__pool_due(pool);
}

ph__pinned *ph__pinned_collect(ph_pool *pool)
{
    ph__pinned *list = NULL;
    for (unsigned i = 0; i < PH__PINNED_CLASSES; i++) {
        while (pool->pinned_free[i]) {
            ph__pinned *block = pool->pinned_free[i];
            pool->pinned_free[i] = block->next;
            block->previous = NULL;
            block->next = list;
            list = block;
        }
    }
    return list;
}
