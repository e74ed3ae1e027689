/* SPDX-License-Identifier: MIT */
/* inspect/races/blocks.c: which block of a capture's layout an address is in: as many questions
 * as the nodes have words, each answered by a binary search. */
#include "inspect/races/blocks.h"
#include "base/alloc.h"
#include <stdlib.h>

static int by_address(const void *a, const void *b)
{
    const uintptr_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The part that begins at the address, which is the beginning or the end of a block. */
static size_t part_at(const ph__block_index *index, uintptr_t address)
{
    size_t low = 0, high = index->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(index->from[middle] <= address ? &low : &high) = middle;
    }
    return low;
}

/* The first part from `at` on that no block has yet; next leads there, over parts that some
 * block has. */
static size_t next_free(size_t *next, size_t at)
{
    size_t found = at;
    while (next[found] != found)
        found = next[found];
    while (next[at] != found) {
        size_t after = next[at];
        next[at] = found;
        at = after;
    }
    return found;
}

static void sort_parts(ph__block_index *index, const ph__layout *layout)
{
    size_t count = 0;
    for (size_t i = 0; i < layout->list.count; i++) {
        index->from[2 * i] = layout->list.at[i].address;
        index->from[2 * i + 1] = layout->list.at[i].address + layout->list.at[i].size;
    }
    qsort(index->from, 2 * layout->list.count, sizeof *index->from, by_address);
    for (size_t i = 0; i < 2 * layout->list.count; i++)
        if (i == 0 || index->from[i] != index->from[i - 1])
            index->from[count++] = index->from[i];
    index->count = count;
}

/* The last blocks first: what one of them has is nobody else's. */
bool ph__block_index_make(ph__block_index *out, const ph__layout *layout)
{
    size_t count = layout->list.count;
    *out = (ph__block_index){0};
    if (count == 0)
        return true;
    out->from = ph__alloc(2 * count * sizeof *out->from);
    out->block = ph__calloc(2 * count, sizeof(ph__logged_allocation *));
    size_t *next = ph__alloc((2 * count + 1) * sizeof *next);
    bool made = out->from && out->block && next;
    if (made)
        sort_parts(out, layout);
    for (size_t i = 0; made && i <= out->count; i++)
        next[i] = i;
    for (size_t i = count; made && i-- > 0;) {
        const ph__logged_allocation *block = &layout->list.at[i];
        size_t part = next_free(next, part_at(out, block->address));
        for (; part < out->count && out->from[part] < block->address + block->size;
             part = next_free(next, part)) {
            out->block[part] = block;
            next[part] = part + 1;
        }
    }
    ph__free(next);
    if (!made)
        ph__block_index_free(out);
    return made;
}

void ph__block_index_free(ph__block_index *index)
{
    ph__free(index->from);
    ph__free(index->block);
    *index = (ph__block_index){0};
}

const ph__logged_allocation *ph__block_index_find(const ph__block_index *index, uintptr_t address)
{
    if (index->count == 0 || address < index->from[0])
        return NULL;
    return index->block[part_at(index, address)];
}
