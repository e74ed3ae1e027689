/* SPDX-License-Identifier: MIT */
/* record/diff/edges.c: dependencies of two nodes. Those that only pass through a node which was
 * added or removed are no difference of their own: what is compared is what each depends on
 * among the nodes that both records have. */
#include "record/diff/edges.h"
#include "base/text.h"
#include "record/diff/diff.h"
#include "record/diff/rules.h"
#include "record/read.h"
#include <stdlib.h>

enum {
    FAR = 256,   /* unpaired nodes that a look behind them goes through, */
    MANY = 4096, /* as long as it has not met so many dependencies */
    LISTED = 4   /* dependencies that a text tells */
};

/* Of one of the two records. */
typedef struct side {
    const ph_record *record;
    const size_t *mates;
    bool is_mine; /* a's: met nodes are called as b calls them */
} side;

static int by_number(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* Sorted, each once. */
static void sort_unique(size_t *at, size_t *count)
{
    size_t kept = 0;
    if (*count > 1)
        qsort(at, *count, sizeof *at, by_number);
    for (size_t i = 0; i < *count; i++)
        if (kept == 0 || at[kept - 1] != at[i])
            at[kept++] = at[i];
    *count = kept;
}

/* Adds what the node depends on to *out, the unpaired ones to the stack. */
static bool add_dependencies(ph__differ *d, ph__numbers *out, const side *s,
                             const ph__record_node *node)
{
    for (size_t i = 0; i < node->info.dependency_count; i++) {
        size_t dependency = node->dependencies[i], mate = s->mates[dependency];
        size_t name = s->is_mine ? mate : dependency;
        d->failed = d->failed || !(mate == SIZE_MAX ? ph__vec_push(&d->stack, dependency)
                                                    : ph__vec_push(out, name));
    }
    return !d->failed;
}

/* By b's numbers. false: they lie behind more unpaired nodes than are looked through. */
static bool list_edges(ph__differ *d, ph__numbers *out, const side *s, const ph__record_node *node)
{
    ph__vec_clear(out);
    ph__vec_clear(&d->stack);
    if (!add_dependencies(d, out, s, node))
        return false;
    for (size_t seen = 0; d->stack.count > 0; seen++) {
        if (seen == FAR || out->count + d->stack.count > MANY)
            return false;
        size_t at = d->stack.at[--d->stack.count];
        if (!add_dependencies(d, out, s, &s->record->nodes[at]))
            return false;
    }
    sort_unique(out->at, &out->count);
    return true;
}

/* Drops from both what both have. */
static void drop_common(size_t *a, size_t *a_count, size_t *b, size_t *b_count)
{
    size_t i = 0, j = 0, mine = 0, theirs = 0;
    while (i < *a_count || j < *b_count) {
        if (j == *b_count || (i < *a_count && a[i] < b[j])) {
            a[mine++] = a[i++];
        } else if (i == *a_count || b[j] < a[i]) {
            b[theirs++] = b[j++];
        } else {
            i++;
            j++;
        }
    }
    *a_count = mine;
    *b_count = theirs;
}

/* Numbers of b, called as the record in question has them. */
static void put_list(ph__differ *d, const side *s, const size_t *at, size_t count,
                     const size_t *back)
{
    ph__text_add(&d->text, count == 0 ? "none" : count == 1 ? "node " : "nodes ");
    for (size_t i = 0; i < count && i < LISTED; i++) {
        size_t number = s->is_mine ? back[at[i]] : at[i];
        ph__text_format(&d->text, "%s%zu (", i ? ", " : "", number);
        ph__put_name(&d->text, s->record->nodes[number].info.name, 64);
        ph__text_add(&d->text, ")");
    }
    if (count > LISTED)
        ph__text_format(&d->text, " and %zu more", count - LISTED);
}

static void report_edges(ph__differ *d, const ph__diff_level *level, const side *mine,
                         const side *theirs, size_t i, size_t j)
{
    ph__change_begin(d, level, PH_CHANGE_EDGE, i, j, ph__rule_edges);
    ph__text_add(&d->text, " depends on: ");
    put_list(d, mine, d->mine.at, d->mine.count, level->back);
    ph__text_add(&d->text, " -> ");
    put_list(d, theirs, d->theirs.at, d->theirs.count, level->back);
    ph__change_end(d);
}

/* The kinds of the dependencies that both have. */
static void compare_kinds(ph__differ *d, const ph__diff_level *level, size_t i, size_t j)
{
    const ph__record_node *a = &level->a->nodes[i], *b = &level->b->nodes[j];
    for (size_t x = 0, y = 0; x < a->info.dependency_count; x++) {
        size_t mate = level->there[a->dependencies[x]];
        if (mate == SIZE_MAX)
            continue;
        while (y < b->info.dependency_count && b->dependencies[y] < mate)
            y++;
        if (y == b->info.dependency_count || b->dependencies[y] != mate ||
            a->dependency_kinds[x] == b->dependency_kinds[y])
            continue;
        ph__change_begin(d, level, PH_CHANGE_EDGE, i, j, ph__rule_edges);
        ph__text_format(&d->text, " depends on node %zu: %s -> %s", a->dependencies[x],
                        ph__edge_kind_name(a->dependency_kinds[x]),
                        ph__edge_kind_name(b->dependency_kinds[y]));
        ph__change_end(d);
    }
}

static bool same_dependencies(const ph__diff_level *level, const ph__record_node *a,
                              const ph__record_node *b)
{
    bool same = a->info.dependency_count == b->info.dependency_count;
    for (size_t i = 0; same && i < a->info.dependency_count; i++)
        same = level->there[a->dependencies[i]] == b->dependencies[i];
    return same;
}

void ph__diff_edges(ph__differ *d, const ph__diff_level *level, size_t i, size_t j)
{
    const ph__record_node *a = &level->a->nodes[i], *b = &level->b->nodes[j];
    const side mine = {level->a, level->there, true}, theirs = {level->b, level->back, false};
    compare_kinds(d, level, i, j);
    if (same_dependencies(level, a, b))
        return;
    if (!list_edges(d, &d->mine, &mine, a) || !list_edges(d, &d->theirs, &theirs, b))
        return;
    drop_common(d->mine.at, &d->mine.count, d->theirs.at, &d->theirs.count);
    if (d->mine.count || d->theirs.count)
        report_edges(d, level, &mine, &theirs, i, j);
}
