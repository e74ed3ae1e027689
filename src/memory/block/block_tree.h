/* SPDX-License-Identifier: MIT */
/* memory/block/block_tree.h: the free blocks of one stream and one half, ordered by size, age of
 * the segment, and address. */
#ifndef PH_MEMORY_BLOCK_BLOCK_TREE_H
#define PH_MEMORY_BLOCK_BLOCK_TREE_H
#include "memory/block/block.h"

/* Sizes are sorted into bins: one for each size below 32 KiB, from there on 32 for each
 * doubling, the last one for all from 2 TiB on. A bin is a treap of blocks by (size, age of the
 * segment, address); a block that is alone in its bin, the common case, costs no tree work. The
 * bitmaps find the next bin that is not empty in two steps. */
#define PH__FREE_BINS  896
#define PH__FREE_WORDS (PH__FREE_BINS / 64)

/* Counters of one half of a heap, for the public statistics. A segment without used
 * blocks is one free block, so that the free blocks which are only a part of their segment need
 * no count of their own. Counts that change together are kept apart, so that compilers do not
 * join them into vectors, which would stall on the scalar stores before. */
typedef struct ph__half_counts {
    size_t used_blocks, segments, used_bytes, segment_bytes, requested_bytes;
    size_t empty_segments; /* without used blocks */
    size_t blocks;         /* used and free */
    size_t empty_bytes;
} ph__half_counts;

typedef struct ph__free_set {
    uint64_t stream;
    bool small;
    ph__half_counts *counts; /* of the heap's half that the set belongs to */
    /* segments that put their free blocks here; the set lives as long as there are any */
    size_t segments;
    struct ph__free_set *next;      /* in the heap's bucket */
    uint64_t words[PH__FREE_WORDS]; /* a bit for each bin that is not empty */
    ph__block *roots[PH__FREE_BINS];
} ph__free_set;

/* For blocks that share their bin with others. */
void ph__free_tree_insert(ph__block **root, ph__block *block);
void ph__free_tree_remove(ph__block **root, ph__block *block);

/* As ph__free_set_best, whatever is in the bin of the size. */
ph__block *ph__free_set_search(const ph__free_set *set, size_t bin, size_t size);

/* Counts the blocks and bytes of the set into *blocks and *bytes; NULL, or which invariant is
 * broken. */
const char *ph__free_set_check(const ph__free_set *set, size_t *blocks, size_t *bytes);

/* The bin of a size; never smaller for a larger size. */
static inline size_t ph__free_bin(size_t size)
{
    uint64_t units = (uint64_t)size / PH__BLOCK_MIN;
    uint64_t shift = (63U ^ (unsigned)__builtin_clzll(units | 32U)) - 5U;
    uint64_t bin = (shift << 5) + (units >> shift);
    return bin < PH__FREE_BINS ? (size_t)bin : PH__FREE_BINS - 1;
}

/* The smallest block of at least size bytes, among equals that of the oldest segment, at the
 * lowest address. NULL: none. */
static inline ph__block *ph__free_set_best(const ph__free_set *set, size_t size)
{
    size_t bin = ph__free_bin(size);
    ph__block *root = set->roots[bin];
    if (root != NULL && root->size == size && root->link[0] == NULL)
        return root;
    return ph__free_set_search(set, bin, size);
}

static inline void ph__free_set_insert_in(ph__free_set *set, ph__block *block, size_t bin)
{
    block->bin = (uint32_t)bin;
    if (set->roots[bin] != NULL) {
        ph__free_tree_insert(&set->roots[bin], block);
        return;
    }
    block->link[0] = NULL;
    block->link[1] = NULL;
    block->parent = NULL;
    set->roots[bin] = block;
    set->words[bin / 64] |= UINT64_C(1) << (bin % 64);
}

static inline void ph__free_set_insert(ph__free_set *set, ph__block *block)
{
    ph__free_set_insert_in(set, block, ph__free_bin(block->size));
}

static inline bool ph__free_alone(const ph__free_set *set, const ph__block *block)
{
    return set->roots[block->bin] == block && block->link[0] == NULL && block->link[1] == NULL;
}

static inline void ph__free_set_remove(ph__free_set *set, ph__block *block)
{
    size_t bin = block->bin;
    if (!ph__free_alone(set, block)) {
        ph__free_tree_remove(&set->roots[bin], block);
        return;
    }
    set->roots[bin] = NULL;
    set->words[bin / 64] &= ~(UINT64_C(1) << (bin % 64));
}

/* Puts fresh, which is in no set, in the place of old. */
static inline void ph__free_set_replace(ph__free_set *set, ph__block *old, ph__block *fresh)
{
    size_t bin = ph__free_bin(fresh->size);
    if (bin == old->bin && ph__free_alone(set, old)) {
        fresh->bin = (uint32_t)bin;
        fresh->link[0] = NULL;
        fresh->link[1] = NULL;
        fresh->parent = NULL;
        set->roots[bin] = fresh;
        return;
    }
    ph__free_set_remove(set, old);
    ph__free_set_insert_in(set, fresh, bin);
}

/* Gives a block of the set another size. */
static inline void ph__free_set_resize(ph__free_set *set, ph__block *block, size_t size)
{
    size_t bin = ph__free_bin(size);
    if (bin == block->bin && ph__free_alone(set, block)) {
        block->size = size;
        return;
    }
    ph__free_set_remove(set, block);
    block->size = size;
    ph__free_set_insert_in(set, block, bin);
}
#endif
