/* SPDX-License-Identifier: MIT */
/* memory/block/block_index.c: the parts of the address index that are off the fast path. */
#include "memory/block/block_index.h"
#include "base/alloc.h"

#define FIRST_SLOTS  ((size_t)128)
#define LEVELS_LIMIT 10 /* 64^10 blocks of 512 bytes are more than an address space holds */

bool ph__index_reserve(ph__index *index, size_t blocks)
{
    size_t slots = index->slots != NULL ? index->mask + 1 : FIRST_SLOTS;
    while (slots / 2 < blocks) {
        if (slots > SIZE_MAX / 2)
            return false;
        slots *= 2;
    }
    if (index->slots != NULL && slots == index->mask + 1)
        return true;
    ph__index_slot *fresh = ph__calloc(slots, sizeof *fresh);
    if (fresh == NULL)
        return false;
    ph__index old = *index;
    *index = (ph__index){
        .slots = fresh, .mask = slots - 1, .shift = 64U - (unsigned)__builtin_ctzll(slots)};
    for (size_t i = 0; old.slots != NULL && i <= old.mask; i++) {
        if (old.slots[i].block != NULL)
            ph__index_put(index, old.slots[i].block);
    }
    ph__free(old.slots);
    return true;
}

size_t ph__index_count(const ph__index *index)
{
    size_t count = 0;
    for (size_t i = 0; index->slots != NULL && i <= index->mask; i++)
        count += index->slots[i].block != NULL ? 1U : 0U;
    return count;
}

void ph__index_free(ph__index *index)
{
    ph__free(index->slots);
    *index = (ph__index){0};
}

size_t ph__starts_words(size_t size, size_t *lowest)
{
    size_t words = (size / PH__BLOCK_MIN + 63) / 64;
    size_t total = words;
    *lowest = words;
    while (words > 1) {
        words = (words + 63) / 64;
        total += words;
    }
    return total;
}

/* The highest bit set at or below bit. */
static size_t starts_before(const ph__segment *segment, size_t bit)
{
    const uint64_t *level[LEVELS_LIMIT] = {segment->starts};
    size_t words = segment->start_words;
    unsigned height = 0;
    uint64_t below = level[0][bit / 64] & (UINT64_MAX >> (63 - bit % 64));
    /* The first block starts at bit 0, so that a level where an earlier word is not empty is
     * always met. */
    while (below == 0) {
        level[height + 1] = level[height] + words;
        words = (words + 63) / 64;
        height++;
        bit /= 64;
        below = level[height][bit / 64] & ((UINT64_C(1) << (bit % 64)) - 1);
    }
    bit = bit / 64 * 64 + (63U - (unsigned)__builtin_clzll(below));
    while (height > 0) {
        height--;
        bit = bit * 64 + (63U - (unsigned)__builtin_clzll(level[height][bit]));
    }
    return bit;
}

static void starts_clear(ph__segment *segment, size_t bit)
{
    uint64_t *level = segment->starts;
    for (size_t words = segment->start_words;; words = (words + 63) / 64) {
        level[bit / 64] &= ~(UINT64_C(1) << (bit % 64));
        if (level[bit / 64] != 0 || words == 1)
            return;
        level += words;
        bit /= 64;
    }
}

ph__block *ph__starts_find(const ph__index *index, ph__segment *segment, uintptr_t address)
{
    size_t bit = (size_t)(address - segment->address) / PH__BLOCK_MIN;
    for (;;) {
        bit = starts_before(segment, bit);
        ph__block *block = ph__index_get(index, segment->address + bit * PH__BLOCK_MIN);
        if (block != NULL)
            return block;
        starts_clear(segment, bit);
    }
}

bool ph__starts_check(const ph__segment *segment)
{
    const uint64_t *level = segment->starts;
    for (const ph__block *block = segment->first; block != NULL; block = block->next) {
        size_t bit = (size_t)(block->address - segment->address) / PH__BLOCK_MIN;
        if ((level[bit / 64] >> (bit % 64) & 1U) == 0)
            return false;
    }
    for (size_t words = segment->start_words; words > 1; words = (words + 63) / 64) {
        const uint64_t *above = level + words;
        for (size_t i = 0; i < (words + 63) / 64 * 64; i++) {
            bool filled = i < words && level[i] != 0;
            if ((above[i / 64] >> (i % 64) & 1U) != filled)
                return false;
        }
        level = above;
    }
    return true;
}
