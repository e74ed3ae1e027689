/* SPDX-License-Identifier: MIT */
/* inspect/races/blocks.h: the block of a capture's layout that an address is in. */
#ifndef PH_INSPECT_RACES_BLOCKS_H
#define PH_INSPECT_RACES_BLOCKS_H
#include "memory/state/allocation.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the blocks of a layout, which may lie over one another: disjoint parts by ascending
 * address, each up to the next. */
typedef struct ph__block_index {
    uintptr_t *from;
    const ph__logged_allocation **block; /* the last one there; NULL: none is */
    size_t count;
} ph__block_index;

/* make: false when out of memory; the layout stays as it is meanwhile. find: the last block of the
 * layout that the address is in, or NULL. */
bool ph__block_index_make(ph__block_index *out, const ph__layout *layout);
const ph__logged_allocation *ph__block_index_find(const ph__block_index *index, uintptr_t address);
void ph__block_index_free(ph__block_index *index);
#endif
