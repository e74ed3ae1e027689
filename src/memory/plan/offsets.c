/* SPDX-License-Identifier: MIT */
/* memory/plan/offsets.c: largest first, each into the lowest gap. */
#include "memory/plan/offsets.h"
#include "base/alloc.h"
#include <stdlib.h>
#include <string.h>

typedef struct span {
    size_t base, end;
    uint32_t number;
} span;

/* So many blocks are kept in order of their place, and looked through; beyond, the neighbours of
 * each are sorted. */
enum {
    MOST_IN_ORDER = 4096,
    MOST_STEPS = 1 << 19 /* of further tries, whose steps are about the blocks' square */
};

typedef struct rank {
    size_t weight, number;
    bool first;
} rank;

/* The ways to order blocks, in the order in which they are tried. */
typedef enum ordering {
    LEFT_FIRST, /* blocks that are left, then by size */
    BY_SIZE,
    BY_AREA, /* size x events that it lives through */
    BY_LIFETIME,
    ORDERINGS
} ordering;

/* The neighbours of block i are others[starts[i]] to others[starts[i + 1]]. */
typedef struct layout_search {
    size_t *starts;
    uint32_t *others;
    span *spans;  /* of placed neighbours */
    span *placed; /* in order, where they are few */
    size_t placed_count;
    uint32_t *marks; /* by block: number + 1 of the block that it was last marked for */
    rank *ranks;
    size_t ranked, last; /* last: the rank of the block that was placed last */
    size_t *offsets;
    size_t bytes;
} layout_search;

static int by_rank(const void *a, const void *b)
{
    const rank *x = a, *y = b;
    if (x->first != y->first)
        return x->first ? -1 : 1;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool make_layout_search(layout_search *p, size_t count, const ph__conflicts *conflicts)
{
    size_t pairs = conflicts->pairs.count, most = 0;
    p->starts = ph__calloc(count + 2, sizeof *p->starts);
    p->others = ph__calloc(2 * pairs + 1, sizeof *p->others);
    p->ranks = ph__calloc(count + 1, sizeof *p->ranks);
    p->offsets = ph__calloc(count + 1, sizeof *p->offsets);
    p->marks = ph__calloc(count + 1, sizeof *p->marks);
    p->placed = ph__calloc(MOST_IN_ORDER, sizeof *p->placed);
    if (!p->marks || !p->placed || !p->starts || !p->others || !p->ranks || !p->offsets)
        return false;
    for (size_t i = 0; i < pairs; i++) {
        p->starts[conflicts->pairs.at[i].a + 2]++;
        p->starts[conflicts->pairs.at[i].b + 2]++;
    }
    for (size_t i = 2; i < count + 2; i++) {
        most = p->starts[i] > most ? p->starts[i] : most;
        p->starts[i] += p->starts[i - 1];
    }
    for (size_t i = 0; i < pairs; i++) {
        const ph__conflict *pair = &conflicts->pairs.at[i];
        p->others[p->starts[pair->a + 1]++] = pair->b;
        p->others[p->starts[pair->b + 1]++] = pair->a;
    }
    p->spans = ph__calloc(most + 1, sizeof *p->spans);
    return p->spans != NULL;
}

static void free_layout_search(const layout_search *p)
{
    ph__free(p->starts);
    ph__free(p->others);
    ph__free(p->spans);
    ph__free(p->placed);
    ph__free(p->marks);
    ph__free(p->ranks);
    ph__free(p->offsets);
}

/* Shell sort: the spans are few, and often nearly in order. */
static void sort_spans(span *at, size_t count)
{
    static const size_t gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (size_t i = gaps[g], j; i < count; i++) {
            const span one = at[i];
            for (j = i; j >= gaps[g] && at[j - gaps[g]].base > one.base; j -= gaps[g])
                at[j] = at[j - gaps[g]];
            at[j] = one;
        }
}

/* The same as lowest_gap, by looking through all placed blocks. */
static size_t lowest_gap_in_order(layout_search *p, const ph__plan_block *blocks, size_t number)
{
    size_t lowest = 0, size = blocks[number].size;
    const uint32_t mark = (uint32_t)number + 1;
    for (size_t i = p->starts[number]; i < p->starts[number + 1]; i++)
        p->marks[p->others[i]] = mark;
    for (size_t i = 0; i < p->placed_count; i++) {
        const span *one = &p->placed[i];
        if (p->marks[one->number] != mark)
            continue;
        if (one->base >= lowest && one->base - lowest >= size)
            break;
        lowest = one->end > lowest ? one->end : lowest;
    }
    return lowest;
}

static void keep_in_order(layout_search *p, const ph__plan_block *blocks, size_t number)
{
    const span one = {p->offsets[number], p->offsets[number] + blocks[number].size,
                      (uint32_t)number};
    size_t low = 0, high = p->placed_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->placed[middle].base < one.base)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(&p->placed[low + 1], &p->placed[low], (p->placed_count - low) * sizeof one);
    p->placed[low] = one;
    p->placed_count++;
}

/* The lowest offset at which the size overlaps no placed neighbour. */
static size_t lowest_gap(const layout_search *p, const ph__plan_block *blocks, size_t number)
{
    size_t count = 0, lowest = 0;
    for (size_t i = p->starts[number]; i < p->starts[number + 1]; i++) {
        size_t other = p->others[i];
        if (p->offsets[other] != PH__PLAN_OUTSIDE)
            p->spans[count++] =
                (span){p->offsets[other], p->offsets[other] + blocks[other].size, 0};
    }
    sort_spans(p->spans, count);
    for (size_t i = 0; i < count; i++) {
        if (p->spans[i].base >= lowest && p->spans[i].base - lowest >= blocks[number].size)
            break;
        lowest = p->spans[i].end > lowest ? p->spans[i].end : lowest;
    }
    return lowest;
}

static size_t weigh_block(const ph__plan_block *block, ordering by)
{
    size_t lifetime = block->lifetime;
    if (by == BY_LIFETIME)
        return lifetime;
    return by == BY_AREA && lifetime < SIZE_MAX / block->size ? block->size * lifetime
                                                              : block->size;
}

/* Blocks that have an offset. */
static void rank_blocks(layout_search *p, const ph__plan_block *blocks, size_t count, ordering by)
{
    p->ranked = 0;
    for (size_t i = 0; i < count; i++)
        if (blocks[i].offset != PH__PLAN_OUTSIDE)
            p->ranks[p->ranked++] =
                (rank){weigh_block(&blocks[i], by), i, by == LEFT_FIRST && blocks[i].left};
    if (p->ranked > 0)
        qsort(p->ranks, p->ranked, sizeof *p->ranks, by_rank);
}

/* Places them by rank, as long as they take less than `most` bytes. false: they do not. */
static bool place_ranked(layout_search *p, const ph__plan_block *blocks, size_t count, size_t most)
{
    const bool few = count <= MOST_IN_ORDER;
    p->bytes = p->placed_count = p->last = 0;
    memset(p->marks, 0, count * sizeof *p->marks);
    for (size_t i = 0; i < count; i++)
        p->offsets[i] = PH__PLAN_OUTSIDE;
    for (size_t i = 0; i < p->ranked; i++) {
        size_t number = p->ranks[i].number, size = blocks[number].size;
        size_t offset =
            few ? lowest_gap_in_order(p, blocks, number) : lowest_gap(p, blocks, number);
        p->last = i;
        if (size >= most || offset >= most - size)
            return false;
        p->offsets[number] = offset;
        if (few)
            keep_in_order(p, blocks, number);
        if (p->bytes < offset + size)
            p->bytes = offset + size;
    }
    return true;
}

/* Keeps the offsets where they are the best so far. */
static bool try_ranks(layout_search *p, ph__plan_block *blocks, size_t count, size_t *bytes)
{
    if (!place_ranked(p, blocks, count, *bytes))
        return false;
    *bytes = p->bytes;
    for (size_t i = 0; i < count; i++)
        blocks[i].offset = p->offsets[i];
    return true;
}

/* The block that took too much comes first in the next try. */
static void promote_last(layout_search *p)
{
    const rank one = p->ranks[p->last];
    memmove(&p->ranks[1], &p->ranks[0], p->last * sizeof one);
    p->ranks[0] = one;
}

bool ph__plan_place(ph__plan_block *blocks, size_t count, const ph__conflicts *conflicts,
                    size_t bound, size_t *bytes)
{
    layout_search p = {0};
    const size_t enough = bound + bound / 64, no_sum = SIZE_MAX / 2;
    ordering best = LEFT_FIRST;
    bool ok = make_layout_search(&p, count, conflicts);
    *bytes = no_sum;
    for (int by = LEFT_FIRST; by < ORDERINGS && ok && *bytes > enough; by++) {
        rank_blocks(&p, blocks, count, (ordering)by);
        if (try_ranks(&p, blocks, count, bytes))
            best = (ordering)by;
    }
    ok = ok && *bytes < no_sum;
    if (ok && *bytes > enough)
        rank_blocks(&p, blocks, count, best);
    for (size_t steps = 2 * count * count; ok && *bytes > enough && steps < MOST_STEPS;
         steps += count * count) {
        (void)try_ranks(&p, blocks, count, bytes);
        promote_last(&p);
    }
    free_layout_search(&p);
    return ok;
}
