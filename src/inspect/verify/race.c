/* SPDX-License-Identifier: MIT */
/* inspect/verify/race.c: which of the races that the record shows as possible is one: nodes are
 * run without each other, and in both orders. */
#include "inspect/verify/race.h"
#include "base/alloc.h"
#include "inspect/verify/blocks.h"
#include "inspect/verify/collect.h"
#include "inspect/verify/compare.h"
#include "inspect/verify/run.h"
#include <string.h>

enum {
    MOST_PAIRS = 16,  /* whose nodes are run to see whether they write */
    MOST_PROOFS = 8,  /* pairs that are run in both orders */
    MOST_NODES = 2000 /* of graphs for which that is done */
};

typedef struct pair {
    const ph_race *race;
    unsigned rank; /* the higher, the likelier it is what was seen */
} pair;

typedef struct search {
    ph__verify *verify;
    const ph_record *record;
    size_t *met, *stack; /* met: by node, in which walk it was met last */
    size_t stamp;        /* of the last walk */
    uintptr_t seen;      /* the block in which something differs; 0: not known */
    pair pairs[MOST_PAIRS];
    size_t count, proofs;
} search;

/* ---- pairs ---- */
static bool is_known_write(const ph_race_side *side)
{
    return side->access == PH_ACCESS_OUT || side->access == PH_ACCESS_INOUT;
}

/* The contents say so; memory that is written as it was is not told. */
static bool is_written(const ph__verify *verify, uintptr_t address)
{
    const ph__kept *kept = ph__verify_find_kept(verify, address);
    return kept && (kept->poisoned || memcmp(verify->start.bytes + kept->at,
                                             verify->eager.bytes + kept->at, kept->bytes) != 0);
}

static unsigned rank_of(const search *s, const ph_race *race)
{
    ph_allocation block;
    bool sure = is_known_write(&race->first) || is_known_write(&race->second),
         seen = s->seen && ph__verify_find_block(&block, s->verify, (uintptr_t)race->address) &&
                (uintptr_t)block.base == s->seen;
    return (sure ? 1U : 0U) + (is_written(s->verify, (uintptr_t)race->address) ? 2U : 0U) +
           (seen ? 4U : 0U);
}

/* Pairs of the highest ranks, of one rank the first. */
static void collect_pairs(search *s)
{
    const ph_races *races = s->verify->races;
    for (size_t i = 0; races && i < races->list.count; i++) {
        pair found = {&races->list.at[i], rank_of(s, &races->list.at[i])};
        size_t at = s->count < MOST_PAIRS ? s->count++ : MOST_PAIRS;
        for (; at > 0 && s->pairs[at - 1].rank < found.rank; at--)
            if (at < MOST_PAIRS)
                s->pairs[at] = s->pairs[at - 1];
        if (at < MOST_PAIRS)
            s->pairs[at] = found;
    }
}

/* Marks what `node` comes after. */
static void mark_before(search *s, size_t node)
{
    size_t top = 0, stamp = ++s->stamp;
    s->stack[top++] = node;
    s->met[node] = stamp;
    while (top > 0) {
        const ph__record_node *at = &s->record->nodes[s->stack[--top]];
        for (size_t i = 0; i < at->info.dependency_count; i++) {
            size_t on = at->dependencies[i];
            if (s->met[on] == stamp)
                continue;
            s->met[on] = stamp;
            s->stack[top++] = on;
        }
    }
}

/* ---- who writes ---- what is there without the node, and with it */
static ph_status node_writes(bool *out, search *s, const ph_race_side *at)
{
    ph__verify *verify = s->verify;
    const ph__kept *kept = ph__verify_find_kept(verify, (uintptr_t)at->address);
    ph_allocation block;
    if (at->access != PH_ACCESS_UNKNOWN) {
        *out = is_known_write(at);
        return PH_OK;
    }
    *out = false;
    if (kept == NULL || !ph__verify_find_block(&block, verify, (uintptr_t)at->address))
        return PH_OK;
    size_t from = (uintptr_t)block.base > kept->base ? (uintptr_t)block.base - kept->base : 0,
           room = kept->bytes - from;
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
        mark_before(s, at->race->second.node);
    for (size_t n = 0; n < count; n++)
        if (!two_first || s->met[n] == s->stamp)
            order[next++] = n;
    for (size_t n = 0; n < count && next < count; n++)
        if (s->met[n] != s->stamp)
            order[next++] = n;
    return ph__verify_in_order(s->verify, &s->verify->switches, order, to);
}

/* A run that is not the same twice proves nothing. */
static ph_status race_matters(bool *out, search *s, const pair *at)
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
    PH_TRY(node_writes(races, s, &at->race->first));
    if (!*races)
        PH_TRY(node_writes(races, s, &at->race->second));
    if (!*races)
        return PH_OK;
    if (can_prove(s)) {
        s->proofs++;
        PH_TRY(race_matters(&out->proved, s, at));
        *races = out->proved;
    }
    if (!*races)
        return PH_OK;
    out->one = at->race->first.node;
    out->two = at->race->second.node;
    out->first = at->race->first.word;
    out->second = at->race->second.word;
    (void)ph__verify_find_block(&out->block, s->verify, (uintptr_t)at->race->address);
    return PH_OK;
}

ph_status ph__verify_find_race(ph__race *out, ph__verify *verify, uintptr_t seen)
{
    search s = {.verify = verify, .record = verify->graph->record};
    size_t nodes = s.record->node_count;
    ph_allocation block;
    ph_status status = PH_OK;
    bool races = false;
    *out = (ph__race){.one = SIZE_MAX, .two = SIZE_MAX};
    if (ph_races_count(verify->races, NULL) == 0)
        return PH_OK;
    s.seen = ph__verify_find_block(&block, verify, seen) ? (uintptr_t)block.base : 0;
    s.met = ph__calloc(nodes + 1, sizeof *s.met);
    s.stack = ph__calloc(nodes + 1, sizeof *s.stack);
    if (s.met == NULL || s.stack == NULL)
        status = ph__fail_host_memory(verify->call, "the nodes that use the same memory");
    else
        collect_pairs(&s);
    for (size_t i = 0; i < s.count && status == PH_OK && !races; i++)
        status = inspect_pair(&races, out, &s, &s.pairs[i]);
    ph__free(s.met);
    ph__free(s.stack);
    return status;
}
