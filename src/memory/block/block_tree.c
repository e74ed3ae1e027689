/* SPDX-License-Identifier: MIT */
/* memory/block/block_tree.c: the ordered sets of free blocks: bins by size, a treap in each. */
#include "memory/block/block_tree.h"

/* Where a block stands. Kept in registers while a tree is gone through, as stores to links would
 * make the compiler load the block's members at every level. */
typedef struct tree_place {
    size_t size;
    const ph__segment *segment;
    uintptr_t address;
} place;

static inline place place_of(const ph__block *block)
{
    return (place){block->size, block->segment, block->address};
}

/* Of equal ones, those of the oldest segment come first: a layout that was made once is made again,
 * wherever its segments lie. */
static inline bool stands_before(const ph__block *a, place b)
{
    if (a->size != b.size)
        return a->size < b.size;
    if (a->segment != b.segment)
        return a->segment->number < b.segment->number;
    return a->address < b.address;
}

static inline void set_link(ph__block *parent, int side, ph__block *child)
{
    parent->link[side] = child;
    if (child != NULL)
        child->parent = parent;
}

/* Puts the parts of a tree that stand before and behind the block below it, both keeping the heap
 * order. */
static void part_below(ph__block *tree, ph__block *block, place at)
{
    ph__block *low = block, *high = block;
    int low_side = 0, high_side = 1; /* where the next block of each part goes */
    while (tree != NULL) {
        if (stands_before(tree, at)) {
            set_link(low, low_side, tree);
            low = tree;
            low_side = 1;
            tree = tree->link[1];
        } else {
            set_link(high, high_side, tree);
            high = tree;
            high_side = 0;
            tree = tree->link[0];
        }
    }
    low->link[low_side] = NULL;
    high->link[high_side] = NULL;
}

void ph__free_tree_insert(ph__block **root, ph__block *block)
{
    const place at = place_of(block);
    const uint32_t priority = block->priority;
    ph__block *tree = *root, *parent = NULL;
    int side = 0;
    while (tree != NULL && tree->priority >= priority) {
        side = stands_before(tree, at);
        parent = tree;
        tree = tree->link[side];
    }
    part_below(tree, block, at);
    block->parent = parent;
    if (parent != NULL)
        parent->link[side] = block;
    else
        *root = block;
}

/* The tree below the block takes its place. Nothing is searched: a set of n blocks that goes in
 * no order costs the merging of two branches each, whose expected length does not depend on n. */
void ph__free_tree_remove(ph__block **root, ph__block *block)
{
    ph__block *low = block->link[0], *high = block->link[1], *parent = block->parent;
    ph__block **to = parent == NULL ? root : &parent->link[parent->link[1] == block];
    while (low != NULL && high != NULL) {
        bool low_wins = low->priority >= high->priority;
        ph__block *top = low_wins ? low : high;
        *to = top;
        top->parent = parent;
        parent = top;
        to = &top->link[low_wins];
        if (low_wins)
            low = low->link[1];
        else
            high = high->link[0];
    }
    ph__block *rest = low != NULL ? low : high;
    *to = rest;
    if (rest != NULL)
        rest->parent = parent;
}

static ph__block *tree_first(ph__block *tree)
{
    while (tree->link[0] != NULL)
        tree = tree->link[0];
    return tree;
}

static ph__block *tree_best(ph__block *tree, size_t size)
{
    ph__block *best = NULL;
    while (tree != NULL) {
        bool fits = tree->size >= size;
        best = fits ? tree : best;
        tree = tree->link[fits ? 0 : 1];
    }
    return best;
}

ph__block *ph__free_set_search(const ph__free_set *set, size_t bin, size_t size)
{
    ph__block *best = tree_best(set->roots[bin], size);
    if (best != NULL)
        return best;
    size_t word = bin / 64;
    uint64_t bits = set->words[word] & (~UINT64_C(1) << (bin % 64));
    while (bits == 0) {
        if (++word == PH__FREE_WORDS)
            return NULL;
        bits = set->words[word];
    }
    return tree_first(set->roots[word * 64 + (unsigned)__builtin_ctzll(bits)]);
}

typedef struct tree_walk {
    const ph__free_set *set;
    const ph__block *last; /* visited before */
    size_t bin;
    size_t blocks, bytes;
} tree_walk;

static const char *check_tree(tree_walk *walk, const ph__block *tree)
{
    for (int side = 0; side < 2; side++) {
        const ph__block *child = tree->link[side];
        if (child != NULL && child->priority > tree->priority)
            return "a free tree is not in heap order";
        if (child != NULL && child->parent != tree)
            return "a free block does not know what it hangs from";
        if (child != NULL) {
            const char *broken = side == 0 ? check_tree(walk, child) : NULL;
            if (broken != NULL)
                return broken;
        }
        if (side == 0) {
            if (walk->last != NULL && !stands_before(walk->last, place_of(tree)))
                return "a free tree is not ordered by size, age of the segment and address";
            if (!tree->free || tree->segment->set != walk->set)
                return "a free tree holds a block that does not belong there";
            if (ph__free_bin(tree->size) != walk->bin || tree->bin != walk->bin)
                return "a free block is in the wrong bin";
            walk->last = tree;
            walk->blocks++;
            walk->bytes += tree->size;
        }
    }
    return tree->link[1] != NULL ? check_tree(walk, tree->link[1]) : NULL;
}

const char *ph__free_set_check(const ph__free_set *set, size_t *blocks, size_t *bytes)
{
    tree_walk walk = {.set = set};
    for (size_t bin = 0; bin < PH__FREE_BINS; bin++) {
        bool marked = (set->words[bin / 64] >> (bin % 64) & 1U) != 0;
        if (marked != (set->roots[bin] != NULL))
            return "the bitmap of free bins is wrong";
        walk.bin = bin;
        if (marked && set->roots[bin]->parent != NULL)
            return "the root of a free tree hangs from something";
        const char *broken = marked ? check_tree(&walk, set->roots[bin]) : NULL;
        if (broken != NULL)
            return broken;
    }
    *blocks += walk.blocks;
    *bytes += walk.bytes;
    return NULL;
}
