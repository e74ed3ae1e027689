/* SPDX-License-Identifier: MIT */
/* record/diff/match.c: which nodes of two records are the same: first by kind, kernel,
 * dimensions and sizes, then, between those, by kind and kernel, then by their places. */
#include "record/diff/match.h"
#include "base/alloc.h"
#include "record/diff/align.h"
#include "record/diff/diff.h"
#include "record/foreign.h"
#include <string.h>

/* Hashes only choose pairs, which are compared afterwards: two that collide cost a worse choice,
 * no wrong answer. */
static uint64_t mix_hash(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return mix_hash(hash, 0);
}

static uint64_t weak_hash(const ph__record_node *node)
{
    return mix_text(mix_hash(0x50484f4eu, (uint64_t)node->info.kind), node->info.name);
}

/* Deeper bodies are compared when these are. */
static uint64_t body_hash(const ph_record *body)
{
    uint64_t hash = mix_hash(1, body->node_count);
    for (size_t i = 0; i < body->node_count; i++)
        hash = mix_hash(hash, weak_hash(&body->nodes[i]));
    return hash;
}

static uint64_t strong_hash(const ph__record_node *node)
{
    const ph_node_info *info = &node->info;
    uint64_t hash = weak_hash(node);
    for (int i = 0; i < 3; i++)
        hash = mix_hash(mix_hash(hash, info->grid[i]), info->block[i]);
    hash = mix_hash(mix_hash(hash, info->shared_bytes), info->args_size);
    hash = mix_hash(mix_hash(hash, info->bytes), info->value_size);
    return info->body ? mix_hash(hash, body_hash(info->body)) : hash;
}

/* A hash of the parts that are equal in other memory. */
static uint64_t exact_hash(const ph_record *record, const ph__record_node *node, uint64_t strong)
{
    uint64_t hash = mix_hash(strong, node->info.value);
    for (size_t w = 0; w < node->info.word_count; w++) {
        ph_word room;
        const ph_word *word = ph__record_look_up_foreign(&room, record, node, w);
        if (word->kind == PH_WORD_VALUE)
            hash = mix_hash(hash, word->value);
        else if (word->base)
            hash = mix_hash(hash, word->value - (uintptr_t)word->base);
    }
    return hash;
}

enum {
    STRONG = 0,
    WEAK = 1,
    EXACT = 2,
    LEVELS = 3
};

typedef struct matcher {
    const ph_record *a, *b;
    ph__align align;
    uint64_t *hashes; /* of a and b, for each level */
    bool swapped;
} matcher;

/* In which of the two directions the records are aligned depends on them alone, so that the
 * changes from b to a mirror those from a to b. */
static bool comes_first(const matcher *m, const uint64_t *of_b)
{
    size_t n = m->a->node_count;
    if (n != m->b->node_count)
        return n < m->b->node_count;
    return n == 0 || memcmp(m->hashes, of_b, n * sizeof *of_b) <= 0;
}

static void hash_record(const matcher *m, const ph_record *record, size_t first)
{
    size_t all = m->a->node_count + m->b->node_count;
    for (size_t i = 0; i < record->node_count; i++) {
        uint64_t *at = m->hashes + first + i;
        at[STRONG * all] = strong_hash(&record->nodes[i]);
        at[WEAK * all] = weak_hash(&record->nodes[i]);
        at[EXACT * all] = exact_hash(record, &record->nodes[i], at[STRONG * all]);
    }
}

static bool hash_nodes(matcher *m)
{
    size_t n = m->a->node_count;
    m->hashes = ph__calloc(LEVELS * (n + m->b->node_count) + 1, sizeof *m->hashes);
    if (m->hashes == NULL)
        return false;
    hash_record(m, m->a, 0);
    hash_record(m, m->b, n);
    m->swapped = !comes_first(m, m->hashes + n);
    return true;
}

/* Of the record that is aligned with the other one, and of that. */
static const uint64_t *hashes_of(const matcher *m, int level, bool other)
{
    size_t n = m->a->node_count;
    const uint64_t *first = m->hashes + (size_t)level * (n + m->b->node_count);
    return other == m->swapped ? first : first + n;
}

static void use_hashes(matcher *m, int level)
{
    m->align.a = hashes_of(m, level, false);
    m->align.b = hashes_of(m, level, true);
}

/* ---- sliding ---- where nodes of one strong hash follow one another, which of them lacks a
 * mate is open: it is the one that leaves the others most like their mates. */
typedef struct slider {
    const uint64_t *strong, *mine,
        *theirs; /* strong and exact hashes of this side, exact ones of the other */
    size_t *mate, count;
    size_t budget; /* steps that are left */
} slider;

static long gain_of_slide(const slider *s, size_t from, size_t to)
{
    uint64_t theirs = s->theirs[s->mate[from]];
    return (s->mine[to] == theirs) - (s->mine[from] == theirs);
}

/* Whether the mate of the node beside a run can be that of the node at the run's other end. */
static bool can_slide(slider *s, size_t from, size_t to)
{
    if (s->budget == 0 || s->mate[from] == SIZE_MAX || s->strong[from] != s->strong[to])
        return false;
    s->budget--;
    return true;
}

static void move_run(const slider *s, size_t from, size_t to)
{
    s->mate[to] = s->mate[from];
    s->mate[from] = SIZE_MAX;
}

/* Returns where the run ends then. */
static size_t slide_run(slider *s, size_t begin, size_t end)
{
    size_t up = 0, down = 0;
    long sum = 0, best = 0;
    for (size_t k = 0; begin > k && can_slide(s, begin - k - 1, end - k - 1); k++) {
        sum += gain_of_slide(s, begin - k - 1, end - k - 1);
        up = sum > best ? k + 1 : up;
        best = sum > best ? sum : best;
    }
    sum = 0;
    for (size_t k = 0; end + k < s->count && can_slide(s, end + k, begin + k); k++) {
        sum += gain_of_slide(s, end + k, begin + k);
        down = sum > best ? k + 1 : down;
        best = sum > best ? sum : best;
    }
    for (size_t k = 0; down == 0 && k < up; k++)
        move_run(s, begin - k - 1, end - k - 1);
    for (size_t k = 0; k < down; k++)
        move_run(s, end + k, begin + k);
    return end + down;
}

static void slide_all_runs(slider *s)
{
    for (size_t i = 0; i < s->count; i++) {
        size_t begin = i;
        while (i < s->count && s->mate[i] == SIZE_MAX)
            i++;
        if (i > begin)
            i = slide_run(s, begin, i);
    }
}

/* Nodes that one and the other record have between two pairs: as many of each stand for one
 * another. */
static void pair_in_place(matcher *m, size_t a0, size_t a1, size_t b0, size_t b1)
{
    if (a1 - a0 != b1 - b0)
        return;
    for (; a0 < a1; a0++, b0++)
        m->align.mate[a0] = b0;
}

/* Calls for what lies between the pairs: aligns it by weak hashes, or pairs it. */
static bool between_pairs(matcher *m, size_t n, size_t k, bool in_place)
{
    size_t a0 = 0, b0 = 0;
    for (size_t i = 0; i <= n; i++) {
        size_t j = i < n ? m->align.mate[i] : k;
        if (j == SIZE_MAX)
            continue;
        if (in_place)
            pair_in_place(m, a0, i, b0, j);
        else if (!ph__align_range(&m->align, a0, i, b0, j))
            return false;
        a0 = i + 1;
        b0 = j + 1;
    }
    return true;
}

static void invert_mates(size_t *out, const size_t *mate, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (mate[i] != SIZE_MAX)
            out[mate[i]] = i;
}

/* Runs of the one record, then of the other. */
static bool slide_both(const matcher *m, size_t n, size_t k)
{
    size_t *back = ph__alloc((k + 1) * sizeof *back);
    if (back == NULL)
        return false;
    slider mine = {hashes_of(m, STRONG, false),
                   hashes_of(m, EXACT, false),
                   hashes_of(m, EXACT, true),
                   m->align.mate,
                   n,
                   8 * (n + k)};
    slide_all_runs(&mine);
    memset(back, 0xff, k * sizeof *back);
    invert_mates(back, m->align.mate, n);
    slider theirs = {hashes_of(m, STRONG, true),
                     hashes_of(m, EXACT, true),
                     hashes_of(m, EXACT, false),
                     back,
                     k,
                     8 * (n + k)};
    slide_all_runs(&theirs);
    memset(m->align.mate, 0xff, n * sizeof *back);
    invert_mates(m->align.mate, back, k);
    ph__free(back);
    return true;
}

static bool align_nodes(matcher *m)
{
    size_t n = m->swapped ? m->b->node_count : m->a->node_count;
    size_t k = m->swapped ? m->a->node_count : m->b->node_count;
    use_hashes(m, WEAK);
    if (n == k && memcmp(m->align.a, m->align.b, n * sizeof *m->align.a) == 0) {
        pair_in_place(m, 0, n, 0, k);
        return true;
    }
    use_hashes(m, STRONG);
    if (!ph__align_range(&m->align, 0, n, 0, k) || !slide_both(m, n, k))
        return false;
    use_hashes(m, WEAK);
    return between_pairs(m, n, k, false) && between_pairs(m, n, k, true);
}

bool ph__record_match(size_t *there, size_t *back, const ph_record *a, const ph_record *b,
                      size_t *steps)
{
    matcher m = {.a = a, .b = b};
    memset(there, 0xff, a->node_count * sizeof *there);
    memset(back, 0xff, b->node_count * sizeof *back);
    if (!hash_nodes(&m))
        return false;
    m.align.mate = m.swapped ? back : there;
    bool had_memory = align_nodes(&m);
    if (m.swapped)
        invert_mates(there, back, b->node_count);
    else
        invert_mates(back, there, a->node_count);
    *steps += m.align.steps;
    ph__free(m.hashes);
    return had_memory;
}
