/* SPDX-License-Identifier: MIT */
/* memory/plan/plan.c: the plan of a run, and the check of the run that followed it. */
#include "memory/plan/plan.h"
#include "base/alloc.h"

const char ph__memory_plan_empty[] = "the function allocated nothing that can be planned";
static const char no_memory[] = "there was no host memory to plan with";
static const char too_much[] =
    "which blocks may share memory could not be found out: no host memory, a graph that "
    "is too large, or the driver refused to show it";

/* The largest sum of sizes that were alive at once. false: no host memory. */
static bool find_bound(size_t *bound, const ph__memory_plan *plan, const ph__plan_notes *notes)
{
    size_t *freed = ph__calloc(notes->events + 1, sizeof *freed); /* by event: number + 1 */
    size_t alive = 0, event = 0;
    *bound = 0;
    if (freed == NULL)
        return false;
    for (size_t i = 0; i < plan->count; i++)
        if (notes->blocks.at[i].freed != PH__PLAN_NEVER)
            freed[notes->blocks.at[i].freed] = i + 1;
    for (size_t i = 0; i < plan->count; i++) {
        for (; event < notes->blocks.at[i].allocated; event++)
            if (freed[event] && plan->blocks[freed[event] - 1].offset != PH__PLAN_OUTSIDE)
                alive -= plan->blocks[freed[event] - 1].size;
        if (plan->blocks[i].offset != PH__PLAN_OUTSIDE)
            alive += plan->blocks[i].size;
        *bound = alive > *bound ? alive : *bound;
    }
    ph__free(freed);
    return true;
}

static bool build_blocks(ph__memory_plan *plan, const ph__plan_notes *notes, uint64_t own)
{
    plan->count = notes->blocks.count;
    plan->events = notes->events;
    plan->blocks = ph__calloc(plan->count + 1, sizeof *plan->blocks);
    if (plan->blocks == NULL)
        return false;
    for (size_t i = 0; i < plan->count; i++) {
        const ph__planned_block *block = &notes->blocks.at[i];
        bool left = block->freed == PH__PLAN_NEVER;
        bool outside = block->held || (left && block->stream != own);
        plan->blocks[i] =
            (ph__plan_block){.size = block->size,
                             .offset = outside ? PH__PLAN_OUTSIDE : 0,
                             .lifetime = (left ? notes->events : block->freed) - block->allocated,
                             .left = left};
        plan->inside += !outside;
        plan->left += left && !outside ? block->size : 0;
    }
    return true;
}

const char *ph__memory_plan_read(ph__memory_plan *out, const ph__plan_notes *notes, uint64_t own)
{
    *out = (ph__memory_plan){0};
    if (notes->lost || !build_blocks(out, notes, own) || !find_bound(&out->bound, out, notes))
        return no_memory;
    return ph__plan_find_conflicts(&out->conflicts, notes, out->blocks) ? NULL : too_much;
}

/* ---- several captures ---- */
static bool is_inside(const ph__plan_block *block)
{
    return block->offset != PH__PLAN_OUTSIDE;
}

/* Blocks that the captures before have left conflict with all of this one. */
static bool pair_with_left(ph__memory_plan *all, const ph__memory_plan *run)
{
    for (size_t i = 0; i < all->count; i++) {
        if (!all->blocks[i].left || !is_inside(&all->blocks[i]))
            continue;
        all->blocks[i].lifetime += run->events;
        if (run->inside > PH__PLAN_PAIRS - all->conflicts.pairs.count ||
            !ph__vec_reserve(&all->conflicts.pairs, run->inside))
            return false;
        for (size_t k = 0; k < run->count; k++)
            if (is_inside(&run->blocks[k]))
                all->conflicts.pairs.at[all->conflicts.pairs.count++] =
                    (ph__conflict){(uint32_t)i, (uint32_t)(all->count + k)};
    }
    return true;
}

/* The pairs of the first run, which may be many, are not copied. */
static bool append_pairs(ph__memory_plan *all, ph__memory_plan *run)
{
    const size_t pairs = run->conflicts.pairs.count, first = all->count;
    if (first == 0) {
        all->conflicts = run->conflicts;
        run->conflicts = (ph__conflicts){0};
        return true;
    }
    if (!pair_with_left(all, run) || pairs > PH__PLAN_PAIRS - all->conflicts.pairs.count ||
        !ph__vec_reserve(&all->conflicts.pairs, pairs))
        return false;
    for (size_t i = 0; i < pairs; i++) {
        const ph__conflict *pair = &run->conflicts.pairs.at[i];
        all->conflicts.pairs.at[all->conflicts.pairs.count++] =
            (ph__conflict){(uint32_t)(first + pair->a), (uint32_t)(first + pair->b)};
    }
    return true;
}

static bool append_run(ph__memory_plan *all, ph__memory_plan *run)
{
    const size_t first = all->count;
    if (!append_pairs(all, run))
        return false;
    for (size_t i = 0; i < run->count; i++)
        all->blocks[first + i] = run->blocks[i];
    all->bound = all->left + run->bound > all->bound ? all->left + run->bound : all->bound;
    all->left += run->left;
    all->inside += run->inside;
    all->events += run->events;
    all->count += run->count;
    return true;
}

/* Their pairs are of no more use. */
static void hand_out_offsets(ph__memory_plan *all, ph__memory_plan *runs, size_t count)
{
    size_t first = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < runs[i].count; k++)
            runs[i].blocks[k].offset = all->blocks[first + k].offset;
        first += runs[i].count;
        ph__conflicts_free(&runs[i].conflicts);
    }
    ph__conflicts_free(&all->conflicts);
}

const char *ph__memory_plan_place(ph__memory_plan *all, ph__memory_plan *runs, size_t count)
{
    size_t blocks = 0;
    *all = (ph__memory_plan){0};
    for (size_t i = 0; i < count; i++)
        blocks += runs[i].count;
    all->blocks = ph__calloc(blocks + 1, sizeof *all->blocks);
    if (all->blocks == NULL)
        return no_memory;
    for (size_t i = 0; i < count; i++)
        if (blocks > UINT32_MAX || !append_run(all, &runs[i]))
            return too_much;
    if (all->inside == 0)
        return ph__memory_plan_empty;
    if (!ph__plan_place(all->blocks, all->count, &all->conflicts, all->bound, &all->bytes))
        return no_memory;
    hand_out_offsets(all, runs, count);
    return NULL;
}

/* ---- the run that followed ---- */
/* One stream, and the same events: the order is that of the plan. */
static bool is_same_run(const ph__plan_notes *first, const ph__plan_notes *second)
{
    bool same = first->streams.count == 1 && second->streams.count == 1 &&
                first->blocks.count == second->blocks.count;
    for (size_t i = 0; i < first->blocks.count && same; i++)
        same = first->blocks.at[i].allocated == second->blocks.at[i].allocated &&
               first->blocks.at[i].freed == second->blocks.at[i].freed;
    return same;
}

static bool blocks_overlap(const ph__plan_block *a, const ph__plan_block *b)
{
    return a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

const char *ph__memory_plan_check(const ph__memory_plan *plan, const ph__plan_notes *first,
                                  const ph__plan_notes *second)
{
    ph__conflicts conflicts = {0};
    if (second->lost)
        return no_memory;
    if (second->blocks.count > plan->count)
        return "the second run asked for more blocks than the first";
    for (size_t i = 0; i < second->blocks.count; i++) {
        const ph__planned_block *block = &second->blocks.at[i];
        if (plan->blocks[i].offset == PH__PLAN_OUTSIDE)
            continue;
        if (block->held || (block->freed == PH__PLAN_NEVER && !plan->blocks[i].left))
            return "the second run kept a block that the first one freed";
    }
    if (is_same_run(first, second))
        return NULL;
    if (!ph__plan_find_conflicts(&conflicts, second, plan->blocks))
        return no_memory;
    bool wrong = false;
    for (size_t i = 0; i < conflicts.pairs.count && !wrong; i++)
        wrong = blocks_overlap(&plan->blocks[conflicts.pairs.at[i].a],
                               &plan->blocks[conflicts.pairs.at[i].b]);
    ph__conflicts_free(&conflicts);
    return wrong ? "the second run freed blocks in another order, or ordered its streams otherwise"
                 : NULL;
}

bool ph__memory_plan_log(ph__layout *out, const ph__memory_plan *plan, const ph__plan_notes *notes,
                         uintptr_t base)
{
    if (!ph__vec_reserve(&out->list, plan->count))
        return false;
    for (size_t i = 0; i < plan->count; i++) {
        const ph__plan_block *block = &plan->blocks[i];
        out->list.at[out->list.count++] = (ph__logged_allocation){
            .stream = notes->blocks.at[i].stream,
            .address = block->offset == PH__PLAN_OUTSIDE ? 0 : base + block->offset,
            .requested = notes->blocks.at[i].requested,
            .size = block->size};
    }
    return true;
}

void ph__memory_plan_free(ph__memory_plan *plan)
{
    ph__free(plan->blocks);
    ph__conflicts_free(&plan->conflicts);
    *plan = (ph__memory_plan){0};
}
