/* SPDX-License-Identifier: MIT */
/* memory/block/block_check.h: checks a heap. */
#ifndef PH_MEMORY_BLOCK_BLOCK_CHECK_H
#define PH_MEMORY_BLOCK_BLOCK_CHECK_H
#include "memory/block/block.h"

/* Every invariant, the costly ones too: NULL when all hold, else words that say which does not.
 * For tests. */
const char *ph__heap_check(const ph__heap *heap);
#endif
