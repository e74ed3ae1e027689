/* SPDX-License-Identifier: MIT */
/* memory/block/block_heap.h: heaps and their segments. */
#ifndef PH_MEMORY_BLOCK_BLOCK_HEAP_H
#define PH_MEMORY_BLOCK_BLOCK_HEAP_H
#include "memory/block/block.h"

/* create/destroy: NULL options are all zero; NULL when out of memory. destroy requires that
 * every segment was removed; it frees what the core holds, and takes NULL. Not thread-safe: one
 * caller at a time per heap. */
ph__heap *ph__heap_create(const ph__heap_options *options);
void ph__heap_destroy(ph__heap *heap);

/* Adds a segment as one free block. NULL when out of host memory, and for a range that is empty,
 * wraps around, is not a multiple of 512 bytes or overlaps another segment: nothing changed. The
 * address itself may have any alignment; blocks keep that of their segment. remove: the segment
 * must have used_blocks == 0; it is gone afterwards. */
ph__segment *ph__heap_add_segment(ph__heap *heap, uintptr_t address, size_t size, uint64_t stream,
                                  bool small);
void ph__heap_remove_segment(ph__heap *heap, ph__segment *segment);

/* For the core: makes PH__SLAB_BLOCKS records more, with room for them in the index; false when out
 * of memory, and nothing changed. */
bool ph__records_grow(ph__heap *heap);
#endif
