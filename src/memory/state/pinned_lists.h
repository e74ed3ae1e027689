/* SPDX-License-Identifier: MIT */
/* memory/state/pinned_lists.h: the free lists of pinned blocks. Lock held. */
#ifndef PH_MEMORY_STATE_PINNED_LISTS_H
#define PH_MEMORY_STATE_PINNED_LISTS_H
#include "memory/state/memory_state.h"

/* Into its free list; its stream has been released. */
void ph__pinned_give(ph__pinned *block);
/* Out of its free list, as if freed by the user and waiting. */
void ph__pinned_unfree(ph__pinned *block);
/* All free ones, a list. */
ph__pinned *ph__pinned_collect(ph_pool *pool);
#endif
