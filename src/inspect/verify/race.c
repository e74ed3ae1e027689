/* SPDX-License-Identifier: MIT */
/* inspect/verify/race.c: nodes that address the same memory with no order between them: what may
 * race. */
#include "inspect/verify/race.h"
#include "base/alloc.h"
#include "inspect/verify/blocks.h"
#include "inspect/verify/collect.h"
#include "inspect/verify/compare.h"
#include "inspect/verify/run.h"
#include "record/foreign.h"
#include "record/sparse.h"
#include <stdlib.h>
#include <string.h>

enum {
    MOST_TOUCHES = 1 << 16, /* words that are looked at */
    MOST_STEPS = 1 << 22,   /* dependencies that are followed */
    LOOK_BACK = 8,          /* nodes before each that address the same block */
    MOST_PAIRS = 16,        /* whose nodes are run to see whether they write */
    MOST_PROOFS = 4,        /* pairs that are run in both orders */
    MOST_NODES = 2000       /* of graphs for which that is done */
};

/* A node addresses a block. */
typedef struct touch {
    uintptr_t base;
    size_t node, word;
} touch;

typedef struct pair {
    const touch *one, *two;
    unsigned rank; /* the higher, the likelier it is what was seen */
} pair;

typedef struct search {
    ph__verify *verify;
    const ph_record *record;
    PH__VEC(touch) touches;
    size_t *met, *stack; /* met: by node, in which walk it was met last */
    size_t stamp;        /* of the last walk */
    size_t steps;
    uintptr_t seen; /* the block in which something differs; 0: not known */
    pair pairs[MOST_PAIRS];
    size_t count, proofs;
} search;

/* ---- who addresses what ---- */
static int by_block(const void *a, const void *b)
{
    const touch *x = a, *y = b;
    if (x->base != y->base)
        return x->base < y->base ? -1 : 1;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->word > y->word) - (x->word < y->word);
}

/* Nobody writes what is after a run as it was before it. */
static bool is_written(const ph__verify *verify, uintptr_t address)
{
    const ph__kept *kept = ph__verify_find_kept(verify, address);
    return kept && (kept->poisoned || memcmp(verify->start.bytes + kept->at,
                                             verify->eager.bytes + kept->at, kept->bytes) != 0);
}

static bool collect_touches(search *s)
{
    for (size_t n = 0; n < s->record->node_count; n++)
        for (size_t w = 0; w < s->record->nodes[n].info.word_count; w++) {
            ph_word room;
            const ph_word *word =
                ph__record_look_up_foreign(&room, s->record, &s->record->nodes[n], w);
            ph_allocation block;
            if (s->touches.count == MOST_TOUCHES)
                return true;
            if (word->kind == PH_WORD_VALUE ||
                !ph__verify_find_block(&block, s->verify, (uintptr_t)word->value))
                continue;
            if (!ph__vec_push(&s->touches, ((touch){(uintptr_t)block.base, n, w})))
                return false;
        }
    return true;
}

/* ---- pairs without a path ---- */
/* Marks what `node` comes after, as far back as `first`. */
static void mark_before(search *s, size_t node, size_t first)
{
    size_t top = 0, stamp = ++s->stamp;
    s->stack[top++] = node;
    s->met[node] = stamp;
    while (top > 0) {
        const ph__record_node *at = &s->record->nodes[s->stack[--top]];
        for (size_t i = 0; i < at->info.dependency_count; i++, s->steps++) {
            size_t on = at->dependencies[i];
            if (on < first || s->met[on] == stamp)
                continue;
            s->met[on] = stamp;
            s->stack[top++] = on;
        }
    }
}

/* Copies and fills say what they do; kernels do not. */
static bool is_known_write(const search *s, const touch *at)
{
    const ph__record_node *node = &s->record->nodes[at->node];
    return (node->info.kind == PH_NODE_MEMCPY || node->info.kind == PH_NODE_MEMSET) &&
           at->word == 0;
}

static bool is_known_read(const search *s, const touch *at)
{
    const ph__record_node *node = &s->record->nodes[at->node];
    return node->info.kind == PH_NODE_MEMCPY && at->word != 0;
}

static void note_pair(search *s, const touch *one, const touch *two)
{
    bool sure = is_known_write(s, one) || is_known_write(s, two);
    pair found = {one, two, (sure ? 1U : 0U) + (one->base == s->seen ? 2U : 0U)};
    if (is_known_read(s, one) && is_known_read(s, two))
        return;
    if (s->count < MOST_PAIRS) {
        s->pairs[s->count++] = found;
        return;
    }
    for (size_t i = 0; i < s->count; i++)
        if (s->pairs[i].rank < found.rank) {
            s->pairs[i] = found;
            return;
        }
}

/* [first, end) are of one block, by node. */
static void inspect_block(search *s, const touch *first, const touch *end)
{
    if (!is_written(s->verify, first->base))
        return;
    for (const touch *two = first + 1; two < end && s->steps < MOST_STEPS; two++) {
        const touch *from = two - first > LOOK_BACK ? two - LOOK_BACK : first;
        if (from->node == two->node)
            continue;
        mark_before(s, two->node, from->node);
        for (const touch *one = two; one-- > from;)
            if (s->met[one->node] != s->stamp)
                note_pair(s, one, two);
    }
}

static void search_pairs(search *s)
{
    const touch *first = s->touches.at, *end = first + s->touches.count;
    while (first < end && s->steps < MOST_STEPS) {
        const touch *next = first;
        while (next < end && next->base == first->base)
            next++;
        inspect_block(s, first, next);
        first = next;
    }
}

/* ---- who writes ---- what is there without the node, and with it */
static ph_status writes(bool *out, search *s, const touch *at)
{
    ph__verify *verify = s->verify;
    const ph__kept *kept = ph__verify_find_kept(verify, at->base);
    ph_allocation block;
    if (is_known_write(s, at) || is_known_read(s, at)) {
        *out = is_known_write(s, at);
        return PH_OK;
    }
    *out = false;
    if (kept == NULL || !ph__verify_find_block(&block, verify, at->base))
        return PH_OK;
    size_t from = at->base - kept->base, room = kept->bytes - from;
    size_t bytes = block.requested < room ? block.requested : room;
    PH_TRY(ph__verify_part(verify, &verify->switches, at->node, false, PH__POISON_NAN,
                           &verify->replay));
    PH_TRY(ph__verify_part(verify, &verify->switches, at->node + 1, false, PH__POISON_NAN,
                           &verify->other));
    *out = memcmp(verify->replay.bytes + kept->at + from, verify->other.bytes + kept->at + from,
                  bytes) != 0;
    return PH_OK;
}

/* ---- whether the order matters ---- */
/* All nodes one after another: where two is to be first, it and what it comes after, and then
 * the others. */
static ph_status run_ordered(search *s, const pair *at, bool two_first, ph__image *to)
{
    size_t count = s->record->node_count, next = 0, *order = s->stack;
    if (two_first)
        mark_before(s, at->two->node, 0);
    for (size_t n = 0; n < count; n++)
        if (!two_first || s->met[n] == s->stamp)
            order[next++] = n;
    for (size_t n = 0; n < count && next < count; n++)
        if (s->met[n] != s->stamp)
            order[next++] = n;
    return ph__verify_in_order(s->verify, &s->verify->switches, order, to);
}

/* A run that is not the same twice proves nothing. */
static ph_status matters(bool *out, search *s, const pair *at)
{
    ph__verify *verify = s->verify;
    ph__difference difference;
    PH_TRY(run_ordered(s, at, false, &verify->replay));
    PH_TRY(run_ordered(s, at, true, &verify->other));
    *out = ph__verify_compare(&difference, verify, &verify->replay, &verify->other, 0);
    if (!*out)
        return PH_OK;
    PH_TRY(run_ordered(s, at, false, &verify->other));
    *out = !ph__verify_compare(&difference, verify, &verify->replay, &verify->other, 0);
    return PH_OK;
}

static bool can_prove(const search *s)
{
    return s->verify->prepared && s->verify->switches.hosts &&
           s->record->node_count <= MOST_NODES && s->proofs < MOST_PROOFS;
}

static ph_status inspect_pair(bool *races, ph__race *out, search *s, const pair *at)
{
    *races = false;
    PH_TRY(writes(races, s, at->one));
    if (!*races)
        PH_TRY(writes(races, s, at->two));
    if (!*races)
        return PH_OK;
    if (can_prove(s)) {
        s->proofs++;
        PH_TRY(matters(&out->proved, s, at));
        *races = out->proved;
    }
    if (!*races)
        return PH_OK;
    out->one = at->one->node;
    out->two = at->two->node;
    ph_word room;
    out->first = ph__record_word(&room, &s->record->nodes[out->one], at->one->word)->name;
    out->second = ph__record_word(&room, &s->record->nodes[out->two], at->two->word)->name;
    (void)ph__verify_find_block(&out->block, s->verify, at->one->base);
    return PH_OK;
}

static ph_status choose(ph__race *out, search *s)
{
    bool races = false;
    for (unsigned rank = 4; rank-- > 0;)
        for (size_t i = 0; i < s->count && !races; i++)
            if (s->pairs[i].rank == rank)
                PH_TRY(inspect_pair(&races, out, s, &s->pairs[i]));
    return PH_OK;
}

ph_status ph__verify_find_race(ph__race *out, ph__verify *verify, uintptr_t seen)
{
    search s = {.verify = verify, .record = verify->graph->record};
    size_t nodes = s.record->node_count;
    ph_allocation block;
    ph_status status;
    *out = (ph__race){.one = SIZE_MAX, .two = SIZE_MAX};
    /* Changes to an executable are not in the record. */
    if (verify->graph->changed || verify->graph->slots)
        return PH_OK;
    s.seen = ph__verify_find_block(&block, verify, seen) ? (uintptr_t)block.base : 0;
    s.met = ph__calloc(nodes + 1, sizeof *s.met);
    s.stack = ph__calloc(nodes + 1, sizeof *s.stack);
    if (s.met == NULL || s.stack == NULL || !collect_touches(&s)) {
        status = ph__fail_host_memory(verify->call, "the nodes that address the same memory");
    } else {
        if (s.touches.count > 1)
            qsort(s.touches.at, s.touches.count, sizeof *s.touches.at, by_block);
        search_pairs(&s);
        status = choose(out, &s);
    }
    ph__vec_free(&s.touches);
    ph__free(s.met);
    ph__free(s.stack);
    return status;
}
