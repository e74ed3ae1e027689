/* SPDX-License-Identifier: MIT */
/* record/diff/align.c: the longest common subsequence by the greedy search over edit scripts of
 * E. W. Myers, "An O(ND) Difference Algorithm and Its Variations" (Algorithmica 1, 1986): work
 * grows with length times differences. Beyond a number of differences the best beginning found
 * so far is kept, and the search starts again behind it: the result may then be shorter than the
 * longest, the work stays bounded. */
#include "record/diff/align.h"
#include "base/map.h"
#include "base/vec.h"

enum {
    MOST = 1024 /* differences that one search looks for */
};

/* A range that is left to align. */
typedef struct span {
    size_t a0, a1, b0, b1;
} span;

/* Elements of one side that the other has, too, and where they stand. */
typedef struct side {
    uint64_t *at;
    size_t *place, count;
} side;

/* Row d has, for each diagonal k = -d, -d + 2 .. d, how far along a it was reached with d
 * differences. Elements and k count from the span's beginning; an element of b is x - k. */
typedef struct search {
    ph__align *align;
    side a, b;
    span at; /* of these */
    PH__VEC(uint32_t) rows;
} search;

static uint32_t *row_of_search(const search *s, long d)
{
    return s->rows.at + (size_t)(d * (d + 1) / 2);
}

static long point_reached(const search *s, long d, long k)
{
    return (long)row_of_search(s, d)[(k + d) / 2];
}

/* Whether the furthest point of diagonal k with d differences comes from the diagonal above, by
 * an element of b alone. */
static bool comes_down(const search *s, long d, long k)
{
    return k == -d || (k != d && point_reached(s, d - 1, k - 1) < point_reached(s, d - 1, k + 1));
}

static long start_of(const search *s, long d, long k)
{
    if (d == 0)
        return 0;
    return comes_down(s, d, k) ? point_reached(s, d - 1, k + 1)
                               : point_reached(s, d - 1, k - 1) + 1;
}

static long follow_diagonal(const search *s, long k, long x)
{
    const span *at = &s->at;
    long n = (long)(at->a1 - at->a0), m = (long)(at->b1 - at->b0), y = x - k;
    s->align->steps++;
    while (x < n && y < m && s->a.at[at->a0 + (size_t)x] == s->b.at[at->b0 + (size_t)y]) {
        s->align->steps++;
        x++;
        y++;
    }
    return x;
}

/* Pairs what the path to diagonal k with d differences has in common. */
static void store_path(const search *s, long d, long k)
{
    for (;; d--) {
        long x = point_reached(s, d, k), start = start_of(s, d, k);
        for (; x > start; x--)
            s->align->mate[s->a.place[s->at.a0 + (size_t)x - 1]] =
                s->b.place[s->at.b0 + (size_t)(x - k) - 1];
        if (d == 0)
            return;
        k += comes_down(s, d, k) ? 1 : -1;
    }
}

/* Of row d the diagonal whose point leaves least to do. */
static long furthest_diagonal(const search *s, long d)
{
    long n = (long)(s->at.a1 - s->at.a0), m = (long)(s->at.b1 - s->at.b0), best = 0, sum = -1;
    for (long k = -d; k <= d; k += 2) {
        long x = point_reached(s, d, k), y = x - k;
        if (x > n || y > m || x + y <= sum)
            continue;
        best = k;
        sum = x + y;
    }
    return best;
}

/* One search: pairs what it finds and moves the span's beginning behind it. */
static bool advance_search(search *s)
{
    long n = (long)(s->at.a1 - s->at.a0), m = (long)(s->at.b1 - s->at.b0);
    ph__vec_clear(&s->rows);
    for (long d = 0;; d++) {
        if (!ph__vec_reserve(&s->rows, (size_t)d + 1))
            return false;
        s->rows.count += (size_t)d + 1;
        for (long k = -d; k <= d; k += 2) {
            long x = follow_diagonal(s, k, start_of(s, d, k));
            row_of_search(s, d)[(k + d) / 2] = (uint32_t)x;
            if (x < n || x - k < m)
                continue;
            store_path(s, d, k);
            s->at.a0 = s->at.a1;
            s->at.b0 = s->at.b1;
            return true;
        }
        if (d < MOST)
            continue;
        long k = furthest_diagonal(s, d), x = point_reached(s, d, k);
        store_path(s, d, k);
        s->at.a0 += (size_t)x;
        s->at.b0 += (size_t)(x - k);
        return true;
    }
}

/* ---- what is searched ---- */

static bool is_same(ph__align *align, size_t i, size_t j)
{
    align->steps++;
    return align->a[i] == align->b[j];
}

static void trim_span(ph__align *align, span *at)
{
    for (; at->a0 < at->a1 && at->b0 < at->b1 && is_same(align, at->a0, at->b0); at->a0++, at->b0++)
        align->mate[at->a0] = at->b0;
    for (; at->a0 < at->a1 && at->b0 < at->b1 && is_same(align, at->a1 - 1, at->b1 - 1);
         at->a1--, at->b1--)
        align->mate[at->a1 - 1] = at->b1 - 1;
}

static uint64_t key_of(uint64_t hash)
{
    return hash ? hash : 1;
}

/* Keeps the nodes of [begin, end) that the other range has: the others have no mate in any case,
 * and would only lengthen the search. */
static bool choose_common(side *out, const uint64_t *from, size_t begin, size_t end,
                          const uint64_t *other, size_t other_begin, size_t other_end)
{
    ph__map there = {0};
    bool had_memory = true;
    out->at = ph__calloc(end - begin, sizeof *out->at);
    out->place = ph__calloc(end - begin, sizeof *out->place);
    had_memory = out->at && out->place && ph__map_reserve(&there, other_end - other_begin);
    for (size_t i = other_begin; had_memory && i < other_end; i++)
        had_memory = ph__map_put(&there, key_of(other[i]), out);
    for (size_t i = begin; had_memory && i < end; i++)
        if (ph__map_get(&there, key_of(from[i]))) {
            out->at[out->count] = from[i];
            out->place[out->count++] = i;
        }
    ph__map_free(&there);
    return had_memory;
}

static bool search_all(search *s)
{
    bool had_memory = true;
    s->at = (span){0, s->a.count, 0, s->b.count};
    while (had_memory && s->at.a0 < s->at.a1 && s->at.b0 < s->at.b1)
        had_memory = advance_search(s);
    return had_memory;
}

bool ph__align_range(ph__align *align, size_t a0, size_t a1, size_t b0, size_t b1)
{
    search s = {.align = align};
    span at = {a0, a1, b0, b1};
    if (a1 - a0 >= UINT32_MAX - MOST || b1 - b0 >= UINT32_MAX - MOST)
        return true; /* so many have nothing in common */
    trim_span(align, &at);
    if (at.a0 == at.a1 || at.b0 == at.b1)
        return true;
    bool had_memory = choose_common(&s.a, align->a, at.a0, at.a1, align->b, at.b0, at.b1) &&
                      choose_common(&s.b, align->b, at.b0, at.b1, align->a, at.a0, at.a1) &&
                      search_all(&s);
    ph__free(s.a.at);
    ph__free(s.a.place);
    ph__free(s.b.at);
    ph__free(s.b.place);
    ph__vec_free(&s.rows);
    return had_memory;
}
