/* SPDX-License-Identifier: MIT */
/* memory/block/block_index.h: from addresses to blocks: a hash of all block starts, and a bitmap of
 * them in each segment. */
#ifndef PH_MEMORY_BLOCK_BLOCK_INDEX_H
#define PH_MEMORY_BLOCK_BLOCK_INDEX_H
#include "memory/block/block.h"

/* Open addressing, linear probing, at most half full; removal shifts back. All blocks are in it,
 * used or free, so that a hit without a split or a merge does not touch it. */
typedef struct ph__index_slot {
    uintptr_t address;
    ph__block *block; /* NULL: the slot is empty */
} ph__index_slot;

typedef struct ph__index {
    ph__index_slot *slots;
    size_t mask; /* mask + 1 slots when slots != NULL */
    unsigned shift;
} ph__index;

/* How many blocks are in it; slow. */
size_t ph__index_count(const ph__index *index);

/* Makes room for blocks in all; false when out of memory, and nothing changed. Then puts cannot
 * fail. */
bool ph__index_reserve(ph__index *index, size_t blocks);
void ph__index_free(ph__index *index);

static inline size_t ph__index_home(const ph__index *index, uintptr_t address)
{
    return (size_t)(((uint64_t)address / PH__BLOCK_MIN * UINT64_C(0x9e3779b97f4a7c15)) >>
                    index->shift);
}

static inline ph__block *ph__index_get(const ph__index *index, uintptr_t address)
{
    if (index->slots == NULL)
        return NULL;
    size_t at = ph__index_home(index, address);
    while (index->slots[at].block != NULL && index->slots[at].address != address)
        at = (at + 1) & index->mask;
    return index->slots[at].block;
}

static inline void ph__index_put(ph__index *index, ph__block *block)
{
    size_t at = ph__index_home(index, block->address);
    while (index->slots[at].block != NULL)
        at = (at + 1) & index->mask;
    index->slots[at] = (ph__index_slot){block->address, block};
}

static inline void ph__index_remove(ph__index *index, const ph__block *block)
{
    size_t hole = ph__index_home(index, block->address);
    while (index->slots[hole].block != block)
        hole = (hole + 1) & index->mask;
    for (size_t at = (hole + 1) & index->mask; index->slots[at].block != NULL;
         at = (at + 1) & index->mask) {
        size_t home = ph__index_home(index, index->slots[at].address);
        if (((at - home) & index->mask) < ((at - hole) & index->mask))
            continue; /* its home lies after the hole */
        index->slots[hole] = index->slots[at];
        hole = at;
    }
    index->slots[hole].block = NULL;
}

/* The bitmap of a segment: a bit for each 512 bytes, set where a block starts or has once
 * started; behind it levels in which a bit stands for a word of the level below, up to a level
 * of one word. start_words is the length of the lowest level. Bits of blocks that were merged
 * away are cleared only when a search meets them, so that splitting and merging at the same
 * place touches the bitmap once. */

/* The words of all levels for a segment of size bytes; *lowest: of the lowest. */
size_t ph__starts_words(size_t size, size_t *lowest);

/* The block, used or free, that address, which must lie in the segment, belongs to. */
ph__block *ph__starts_find(const ph__index *index, ph__segment *segment, uintptr_t address);

/* Whether the levels agree with each other, and bits are set for all blocks of the segment. */
bool ph__starts_check(const ph__segment *segment);

static inline void ph__starts_set(ph__segment *segment, uintptr_t address)
{
    size_t bit = (size_t)(address - segment->address) / PH__BLOCK_MIN;
    uint64_t *level = segment->starts;
    for (size_t words = segment->start_words;; words = (words + 63) / 64) {
        uint64_t old = level[bit / 64], mask = UINT64_C(1) << (bit % 64);
        if ((old & mask) != 0)
            return;
        level[bit / 64] = old | mask;
        if (old != 0 || words == 1)
            return;
        level += words;
        bit /= 64;
    }
}
#endif
