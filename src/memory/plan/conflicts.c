/* SPDX-License-Identifier: MIT */
/* memory/plan/conflicts.c: pairs of blocks that must not share memory.
 *
 * What is ordered behind a free at one allocation of a stream is so at all later ones of that
 * stream. So each stream has a list of the blocks that may still conflict with what it allocates,
 * and each block leaves each list once. */
#include "memory/plan/conflicts.h"
#include "base/alloc.h"
#include "memory/plan/order.h"

typedef PH__VEC(uint32_t) block_list;

typedef struct search {
    const ph__plan_notes *notes;
    ph__node_order order;
    block_list *lists; /* by stream */
    bool several;      /* streams */
} search;

static bool read_order(search *s)
{
    const ph__plan_notes *notes = s->notes;
    bool ok = true;
    for (size_t i = 0; i < notes->nodes.count && s->several && ok; i++)
        ok = ph__node_order_add(&s->order, notes->memory->driver, notes->nodes.at[i]);
    return ok;
}

static bool is_before_position(const search *s, size_t number, ph__plan_position position)
{
    for (size_t i = 0; i < position.count; i++)
        if (ph__node_order_is_before(
                &s->order, number,
                ph__node_order_number(&s->order, s->notes->nodes.at[position.first + i])))
            return true;
    return false;
}

static bool is_free_for(const search *s, const ph__planned_block *a, const ph__planned_block *b)
{
    if (a->freed == PH__PLAN_NEVER || a->held || a->freed > b->allocated)
        return false;
    for (size_t i = 0; s->several && i < a->at_free.count; i++) {
        const ph__drv_node *node = s->notes->nodes.at[a->at_free.first + i];
        if (!is_before_position(s, ph__node_order_number(&s->order, node), b->at_allocation))
            return false;
    }
    return true;
}

static bool pair_block(ph__conflicts *out, search *s, uint32_t number)
{
    const ph__planned_block *blocks = s->notes->blocks.at, *b = &blocks[number];
    size_t own = 0;
    while (s->notes->streams.at[own]->id != b->stream)
        own++;
    block_list *list = &s->lists[own];
    for (size_t i = 0; i < list->count;) {
        if (is_free_for(s, &blocks[list->at[i]], b)) {
            list->at[i] = list->at[--list->count];
            continue;
        }
        ph__conflict pair = {list->at[i++], number};
        if (out->pairs.count == PH__PLAN_PAIRS || !ph__vec_push(&out->pairs, pair))
            return false;
    }
    for (size_t i = 0; i < s->notes->streams.count; i++)
        if (!ph__vec_push(&s->lists[i], number))
            return false;
    return true;
}

bool ph__plan_find_conflicts(ph__conflicts *out, const ph__plan_notes *notes,
                             const ph__plan_block *blocks)
{
    search s = {.notes = notes, .several = notes->streams.count > 1};
    *out = (ph__conflicts){0};
    s.lists = ph__calloc(notes->streams.count + 1, sizeof *s.lists);
    bool ok = s.lists && notes->blocks.count <= UINT32_MAX && read_order(&s);
    for (size_t i = 0; i < notes->blocks.count && ok; i++)
        ok = blocks[i].offset == PH__PLAN_OUTSIDE || pair_block(out, &s, (uint32_t)i);
    for (size_t i = 0; s.lists && i < notes->streams.count; i++)
        ph__vec_free(&s.lists[i]);
    ph__free(s.lists);
    ph__node_order_free(&s.order);
    if (!ok)
        ph__conflicts_free(out);
    return ok;
}

void ph__conflicts_free(ph__conflicts *conflicts)
{
    ph__vec_free(&conflicts->pairs);
}
