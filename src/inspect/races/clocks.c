/* SPDX-License-Identifier: MIT */
/* inspect/races/clocks.c: chains and clocks. A clock is a tree over the chains, of which a later
 * clock shares what it has not changed: a fork or a join costs what differs between its sides. */
#include "inspect/races/clocks.h"
#include "base/alloc.h"
#include <string.h>

enum {
    FAN_BITS = 4,
    TRIED = 4 /* ended chains that a new branch may go on with */
};

static unsigned slot_of(uint32_t chain, unsigned level)
{
    return chain >> (level * FAN_BITS) & (PH__CLOCK_FAN - 1);
}

/* ---- clocks ---- made in parts.at; 0 is the empty one. false: no memory. */
static bool add_part(ph__clocks *c, uint32_t *out, const ph__clock_part *part)
{
    *out = (uint32_t)c->parts.count;
    return c->parts.count < UINT32_MAX && ph__vec_push(&c->parts, *part);
}

static uint32_t place_in(ph__clocks *c, uint32_t clock, uint32_t chain)
{
    for (unsigned level = c->levels; clock && level-- > 0; c->steps++)
        clock = c->parts.at[clock].at[slot_of(chain, level)];
    return clock;
}

static bool put_place(ph__clocks *c, uint32_t *clock, unsigned level, uint32_t chain,
                      uint32_t place)
{
    ph__clock_part part = c->parts.at[*clock];
    uint32_t *to = &part.at[slot_of(chain, level)];
    c->steps++;
    if (level > 0) {
        uint32_t below = *to;
        if (!put_place(c, &below, level - 1, chain, place))
            return false;
        if (below == *to)
            return true;
        *to = below;
    } else {
        if (*to >= place)
            return true;
        *to = place;
    }
    return add_part(c, clock, &part);
}

/* The later of both everywhere. */
static bool merge_clocks(ph__clocks *c, uint32_t *into, uint32_t other, unsigned level)
{
    if (*into == other || other == 0)
        return true;
    if (*into == 0) {
        *into = other;
        return true;
    }
    ph__clock_part part = c->parts.at[*into];
    c->steps++;
    for (unsigned i = 0; i < PH__CLOCK_FAN; i++) {
        uint32_t there = c->parts.at[other].at[i];
        if (level > 0) {
            if (!merge_clocks(c, &part.at[i], there, level - 1))
                return false;
        } else if (there > part.at[i]) {
            part.at[i] = there;
        }
    }
    if (memcmp(&part, &c->parts.at[*into], sizeof part) == 0)
        return true;
    if (memcmp(&part, &c->parts.at[other], sizeof part) == 0) {
        *into = other;
        return true;
    }
    return add_part(c, into, &part);
}

/* ---- chains ---- */
static bool new_chain(ph__clocks *c, uint32_t *chain, uint32_t node)
{
    *chain = c->chain_count++;
    return ph__vec_push(&c->tails, node);
}

/* A chain of ended ones whose last node comes before: the clock says so. */
static bool reuse_ended(ph__clocks *c, uint32_t *chain, uint32_t clock)
{
    for (size_t i = c->ended.count, seen = 0; i-- > 0 && seen < TRIED; seen++) {
        uint32_t ended = c->ended.at[i];
        if (place_in(c, clock, ended) < c->place[c->tails.at[ended]])
            continue;
        c->ended.at[i] = c->ended.at[--c->ended.count];
        *chain = ended;
        return true;
    }
    return false;
}

static bool is_last(const ph__clocks *c, uint32_t node)
{
    return c->tails.at[c->chain[node]] == node;
}

static bool add_to_clock(ph__clocks *c, uint32_t *clock, uint32_t on)
{
    return merge_clocks(c, clock, c->clock[on], c->levels - 1) &&
           put_place(c, clock, c->levels - 1, c->chain[on], c->place[on]);
}

/* The first dependency that ends its chain is gone on with; other such chains end here. */
static bool add_node(ph__clocks *c, const ph__flat *flat, uint32_t n)
{
    const ph__flat_node *node = &flat->nodes.at[n];
    const uint32_t *on = flat->edges.at + node->first;
    uint32_t next = UINT32_MAX, clock = 0, chain = 0;
    for (uint32_t i = 0; i < node->count && next == UINT32_MAX; i++)
        if (is_last(c, on[i]))
            next = on[i];
    if (next != UINT32_MAX)
        clock = c->clock[next];
    for (uint32_t i = 0; i < node->count; i++) {
        if (on[i] == next)
            continue;
        if (!add_to_clock(c, &clock, on[i]))
            return false;
        if (next != UINT32_MAX && is_last(c, on[i]) && !ph__vec_push(&c->ended, c->chain[on[i]]))
            return false;
    }
    if (next != UINT32_MAX)
        chain = c->chain[next];
    else if (!reuse_ended(c, &chain, clock) && !new_chain(c, &chain, n))
        return false;
    c->chain[n] = chain;
    c->place[n] = next != UINT32_MAX        ? c->place[next] + 1
                  : c->tails.at[chain] == n ? 1
                                            : c->place[c->tails.at[chain]] + 1;
    c->tails.at[chain] = n;
    c->clock[n] = clock;
    return true;
}

bool ph__clocks_make(ph__clocks *out, const ph__flat *flat)
{
    size_t count = flat->nodes.count;
    *out = (ph__clocks){.levels = 1};
    while (count > (size_t)1 << (FAN_BITS * out->levels))
        out->levels++;
    out->chain = ph__calloc(count + 1, sizeof(uint32_t));
    out->place = ph__calloc(count + 1, sizeof(uint32_t));
    out->clock = ph__calloc(count + 1, sizeof(uint32_t));
    uint32_t none;
    bool made = out->chain && out->place && out->clock &&
                add_part(out, &none, &(ph__clock_part){.at = {0}});
    for (size_t n = 0; made && n < count; n++)
        made = add_node(out, flat, (uint32_t)n);
    return made;
}

void ph__clocks_free(ph__clocks *clocks)
{
    ph__free(clocks->chain);
    ph__free(clocks->place);
    ph__free(clocks->clock);
    ph__vec_free(&clocks->parts);
    ph__vec_free(&clocks->tails);
    ph__vec_free(&clocks->ended);
}

bool ph__clocks_order(ph__clocks *clocks, uint32_t one, uint32_t two)
{
    uint32_t chain = clocks->chain[one];
    clocks->steps++;
    return chain == clocks->chain[two] ||
           place_in(clocks, clocks->clock[two], chain) >= clocks->place[one];
}
