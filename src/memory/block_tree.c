/* SPDX-License-Identifier: MIT */
/* memory/block_tree.c: the ordered sets of free blocks: bins by size, a treap in each. */
#include "memory/block_tree.h"

/* Of equal ones, those of the oldest segment come first: a layout that was made once is made again, wherever its segments lie. */
static bool before(const ph__block *a, const ph__block *b)
{
    if (a->size != b->size)
        return a->size < b->size;
    if (a->segment != b->segment)
        return a->segment->number < b->segment->number;
    return a->address < b->address;
}

/* Parts a tree into the blocks before the pivot and those after it, both keeping the heap order. */
static void tree_part(ph__block *tree, const ph__block *pivot, ph__block **low, ph__block **high)
{
    while (tree != NULL) {
        if (before(tree, pivot)) {
            *low = tree;
            low = &tree->link[1];
            tree = tree->link[1];
        } else {
            *high = tree;
            high = &tree->link[0];
            tree = tree->link[0];
        }
    }
    *low = *high = NULL;
}

void ph__free_tree_insert(ph__block **root, ph__block *block)
{
    while (*root != NULL && (*root)->priority >= block->priority)
        root = &(*root)->link[before(block, *root) ? 0 : 1];
    tree_part(*root, block, &block->link[0], &block->link[1]);
    *root = block;
}

void ph__free_tree_remove(ph__block **root, ph__block *block)
{
    while (*root != block)
        root = &(*root)->link[before(block, *root) ? 0 : 1];
    ph__block *low = block->link[0], *high = block->link[1];
    while (low != NULL && high != NULL) {
        if (low->priority >= high->priority) {
            *root = low;
            root = &low->link[1];
            low = low->link[1];
        } else {
            *root = high;
            root = &high->link[0];
            high = high->link[0];
        }
    }
    *root = low != NULL ? low : high;
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
        if (child != NULL) {
            const char *broken = side == 0 ? check_tree(walk, child) : NULL;
            if (broken != NULL)
                return broken;
        }
        if (side == 0) {
            if (walk->last != NULL && !before(walk->last, tree))
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
        const char *broken = marked ? check_tree(&walk, set->roots[bin]) : NULL;
        if (broken != NULL)
            return broken;
    }
    *blocks += walk.blocks;
    *bytes += walk.bytes;
    return NULL;
}
