/* SPDX-License-Identifier: MIT */
/* inspect/verify/blocks.h: the block that an address is in. */
#ifndef PH_INSPECT_VERIFY_BLOCKS_H
#define PH_INSPECT_VERIFY_BLOCKS_H
#include "inspect/verify/verify.h"
#include "memory/state/allocation.h"

/* make: false when out of memory; the layout stays as it is meanwhile. find: the last block of the
 * layout that the address is in, or NULL. */
bool ph__block_index_make(ph__block_index *out, const ph__layout *layout);
const ph__logged_allocation *ph__block_index_find(const ph__block_index *index, uintptr_t address);
void ph__block_index_free(ph__block_index *index);

/* The last block there that the capture was given, or what is allocated there. */
bool ph__verify_find_block(ph_allocation *out, const ph__verify *verify, uintptr_t address);
#endif
