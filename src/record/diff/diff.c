/* SPDX-License-Identifier: MIT */
/* record/diff/diff.c: the comparison of two records, body by body, and the public questions to its
 * result. */
#include "record/diff/diff.h"
#include "base/alloc.h"
#include "base/demangle.h"
#include "base/text.h"
#include "record/diff/edges.h"
#include "record/diff/match.h"
#include "record/diff/node.h"
#include "record/diff/rules.h"
#include <string.h>

struct ph_diff {
    ph_change *changes;
    size_t count, steps;
    size_t alike, of_a, of_b; /* outermost nodes */
    char *text;
};

/* ---- texts ---- */

void ph__put_name(ph__text *text, const char *name, size_t most)
{
    size_t length = strnlen(name, most + 1), end = length > most ? most : length;
    while (length > most && end > 0 && ((unsigned char)name[end] & 0xc0) == 0x80)
        end--; /* between characters */
    ph__text_add_shown(text, name, end);
    if (length > most)
        ph__text_add(text, "...");
}

static void put_node(ph__text *text, const ph__diff_level *level, size_t i, size_t j)
{
    const ph__record_node *node = i != SIZE_MAX ? &level->a->nodes[i] : &level->b->nodes[j];
    ph__text_format(text, "node %zu (", i != SIZE_MAX ? i : j);
    char room[PH__READABLE];
    const ph_record *record = i != SIZE_MAX ? level->a : level->b;
    ph__put_name(text, ph__record_readable(room, record, node->info.name), 64);
    if (i != SIZE_MAX && j != SIZE_MAX && i != j)
        ph__text_format(text, ", now %zu", j);
    ph__text_add(text, ")");
}

/* From the outermost record inwards. */
static void put_place(ph__text *text, const ph__diff_place *place)
{
    if (place == NULL)
        return;
    put_place(text, place->outer);
    ph__text_format(text, "node %zu (graph): ", place->a);
}

/* Nodes of bodies have no numbers outside: the graph nodes that they are in stand for them. */
void ph__change_begin(ph__differ *d, const ph__diff_level *level, ph_change_kind kind, size_t i,
                      size_t j, const char *rule)
{
    const ph__diff_place *top = level->place;
    while (top && top->outer)
        top = top->outer;
    ph__diff_change made = {.change = {.kind = kind, .a = top ? top->a : i, .b = top ? top->b : j},
                            .text_at = d->text.length};
    if (rule && !level->fits) {
        made.change.rule = rule;
        made.change.blocks_update = true;
    }
    d->failed = d->failed || !ph__vec_push(&d->changes, made);
    if (d->failed)
        return;
    put_place(&d->text, level->place);
    put_node(&d->text, level, i, j);
}

void ph__change_end(ph__differ *d)
{
    ph__text_add_bytes(&d->text, "", 1);
    d->failed = d->failed || d->text.failed;
}

/* ---- the walk ---- */

static void compare_level(ph__differ *d, const ph__diff_level *outer, const ph_record *a,
                          const ph_record *b, const ph__diff_place *place, size_t *alike);

static void compare_pair(ph__differ *d, const ph__diff_level *level, size_t i, size_t j)
{
    const ph_record *mine = level->a->nodes[i].info.body, *theirs = level->b->nodes[j].info.body;
    size_t alike;
    ph__diff_node(d, level, i, j);
    ph__diff_edges(d, level, i, j);
    if (mine && theirs)
        compare_level(d, level, mine, theirs, &(ph__diff_place){level->place, i, j}, &alike);
}

void ph__put_probe(ph__text *text, const ph__record_node *mine, const ph__record_node *theirs)
{
    static const struct {
        const char *name, *text;
    } watches[] = {
        {"phonograph_breadcrumb", " (a breadcrumb: the other graph was captured without "
                                  "ph_capture_options.breadcrumbs, or with other scopes)"},
        {"phonograph_check_finite", " (a check for NaN and infinity: the other graph's capture did "
                                    "not call ph_finite_check here)"}};
    for (size_t i = 0; i < sizeof watches / sizeof watches[0]; i++) {
        bool is_mine = mine && mine->info.kind == PH_NODE_KERNEL &&
                       strcmp(mine->info.name, watches[i].name) == 0;
        bool is_theirs = theirs && theirs->info.kind == PH_NODE_KERNEL &&
                         strcmp(theirs->info.name, watches[i].name) == 0;
        if (is_mine != is_theirs)
            ph__text_add(text, watches[i].text);
    }
}

static void report_unmatched(ph__differ *d, const ph__diff_level *level, size_t i, size_t j)
{
    bool added = i == SIZE_MAX;
    const char *rule =
        level->a->node_count != level->b->node_count ? ph__rule_count : ph__rule_order;
    ph__change_begin(d, level, added ? PH_CHANGE_ADDED : PH_CHANGE_REMOVED, i, j, rule);
    ph__text_add(&d->text, added ? " was added" : " was removed");
    ph__put_shape(&d->text, added ? &level->b->nodes[j] : &level->a->nodes[i]);
    ph__put_probe(&d->text, added ? NULL : &level->a->nodes[i], added ? &level->b->nodes[j] : NULL);
    ph__change_end(d);
}

/* In the order of the nodes, what was removed before what was added in its place. */
static size_t walk_level(ph__differ *d, const ph__diff_level *level)
{
    size_t i = 0, j = 0, alike = 0;
    while (!d->failed && (i < level->a->node_count || j < level->b->node_count)) {
        if (i < level->a->node_count && level->there[i] == SIZE_MAX) {
            report_unmatched(d, level, i++, SIZE_MAX);
        } else if (j < level->b->node_count && level->back[j] == SIZE_MAX) {
            report_unmatched(d, level, SIZE_MAX, j++);
        } else {
            size_t before = d->changes.count;
            compare_pair(d, level, i++, j++);
            alike += d->changes.count == before;
        }
    }
    return alike;
}

static void compare_level(ph__differ *d, const ph__diff_level *outer, const ph_record *a,
                          const ph_record *b, const ph__diff_place *place, size_t *alike)
{
    ph__diff_level level = {
        .a = a, .b = b, .place = place, .fits = (outer && outer->fits) || ph__record_fits(a, b)};
    *alike = 0;
    level.there = ph__calloc(a->node_count + b->node_count + 1, sizeof *level.there);
    d->failed = d->failed || level.there == NULL;
    if (d->failed) {
        ph__free(level.there);
        return;
    }
    level.back = level.there + a->node_count;
    d->failed = !ph__record_match(level.there, level.back, a, b, &d->steps);
    *alike = walk_level(d, &level);
    ph__free(level.there);
}

/* ---- refusals ---- */

static ph_change_kind kind_of(ph_update_reason reason)
{
    switch (reason) {
    case PH_UPDATE_TOPOLOGY:
        return PH_CHANGE_EDGE;
    case PH_UPDATE_NODE_TYPE:
        return PH_CHANGE_KIND;
    case PH_UPDATE_FUNCTION:
        return PH_CHANGE_KERNEL;
    case PH_UPDATE_PARAMETERS:
        return PH_CHANGE_SIZE;
    default:
        return PH_CHANGE_ADDRESS;
    }
}

/* The change of the pair that is most likely meant. */
static ph_change *find_change(const ph__differ *d, const ph__refusal *refusal)
{
    ph_change *found = NULL;
    for (size_t i = 0; i < d->changes.count; i++) {
        ph_change *change = &d->changes.at[i].change;
        if (change->a != refusal->node || change->b != refusal->from_node)
            continue;
        if (found == NULL || change->kind == kind_of(refusal->reason))
            found = change;
        if (found->kind == kind_of(refusal->reason))
            break;
    }
    return found;
}

/* A refusal has a reason that the records do not show. */
static void note_refusal(ph__differ *d, const ph__refusal *refusal)
{
    for (size_t i = 0; i < d->changes.count; i++)
        if (d->changes.at[i].change.blocks_update)
            return;
    ph_change *change = refusal->node != SIZE_MAX ? find_change(d, refusal) : NULL;
    if (change) {
        change->blocks_update = true;
        change->rule = ph__update_rule(refusal->reason);
        return;
    }
    ph__diff_change made = {.change = {.kind = kind_of(refusal->reason),
                                       .a = refusal->node,
                                       .b = refusal->from_node,
                                       .blocks_update = true,
                                       .rule = ph__update_rule(refusal->reason)},
                            .text_at = d->text.length};
    d->failed = !ph__vec_push(&d->changes, made);
    ph__text_add(&d->text, refusal->message);
    ph__change_end(d);
}

/* ---- the result ---- */

static void finish_diff(ph_diff *diff, ph__differ *d)
{
    diff->steps = d->steps;
    diff->count = d->changes.count;
    diff->changes = ph__calloc(diff->count + 1, sizeof *diff->changes);
    ph__text_add_bytes(&d->text, "", 1); /* there is one also without changes */
    diff->text = ph__text_detach(&d->text);
    d->failed = d->failed || diff->changes == NULL || diff->text == NULL;
    for (size_t i = 0; !d->failed && i < diff->count; i++) {
        diff->changes[i] = d->changes.at[i].change;
        diff->changes[i].text = diff->text + d->changes.at[i].text_at;
    }
}

static void differ_free(ph__differ *d)
{
    ph__text_free(&d->text);
    ph__vec_free(&d->changes);
    ph__map_free(&d->there);
    ph__map_free(&d->back);
    ph__vec_free(&d->stack);
    ph__vec_free(&d->mine);
    ph__vec_free(&d->theirs);
}

ph_status ph__record_compare(ph_diff **out, const ph_record *a, const ph_record *b,
                             const ph__refusal *refusal, const char *call)
{
    ph__differ d = {0};
    *out = NULL;
    ph_diff *diff = ph__calloc(1, sizeof *diff);
    if (diff == NULL)
        return ph__fail_host_memory(call, "the differences");
    diff->of_a = a->node_count;
    diff->of_b = b->node_count;
    compare_level(&d, NULL, a, b, NULL, &diff->alike);
    if (refusal && !d.failed)
        note_refusal(&d, refusal);
    finish_diff(diff, &d);
    bool failed = d.failed;
    differ_free(&d);
    if (!failed) {
        *out = diff;
        return PH_OK;
    }
    ph_diff_destroy(diff);
    return ph__fail_host_memory(call, "the differences");
}

ph_status ph_record_diff(ph_diff **out, const ph_record *a, const ph_record *b)
{
    static const char call[] = "ph_record_diff";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (a == NULL || b == NULL)
        return ph__fail_null(call, a ? "b" : "a");
    return ph__record_compare(out, a, b, NULL, call);
}

void ph_diff_destroy(ph_diff *diff)
{
    if (diff == NULL)
        return;
    ph__free(diff->changes);
    ph__free(diff->text);
    ph__free(diff);
}

/* ---- questions ---- */

size_t ph_diff_count(const ph_diff *diff)
{
    return diff ? diff->count : 0;
}

ph_status ph_diff_at(ph_change *out, const ph_diff *diff, size_t index)
{
    static const char call[] = "ph_diff_at";
    if (out == NULL)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    if (diff == NULL)
        return ph__fail_null(call, "diff");
    if (index >= diff->count)
        return ph_fail(PH_ERROR_NOT_FOUND,
                       "%s: change %zu does not exist; there %s %zu, numbered from 0", call, index,
                       diff->count == 1 ? "is" : "are", diff->count);
    *out = diff->changes[index];
    return PH_OK;
}

const char *ph_change_kind_name(ph_change_kind kind)
{
    static const char *const names[] = {"added",   "removed", "kind", "kernel", "dimensions",
                                        "address", "value",   "size", "edge",   "annotation"};
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

const ph_change *ph__diff_first_block(const ph_diff *diff)
{
    for (size_t i = 0; diff && i < diff->count; i++)
        if (diff->changes[i].blocks_update)
            return &diff->changes[i];
    return NULL;
}

size_t ph__diff_steps(const ph_diff *diff)
{
    return diff->steps;
}

static void put_summary(ph__text *text, const ph_diff *diff)
{
    const ph_change *block = ph__diff_first_block(diff);
    if (diff->of_a == diff->of_b)
        ph__text_format(text, "%zu of %zu nodes are alike; ", diff->alike, diff->of_a);
    else
        ph__text_format(text, "%zu nodes are alike, of %zu and %zu; ", diff->alike, diff->of_a,
                        diff->of_b);
    ph__text_add(text, block ? "an update is not possible: " : "an update is possible");
    ph__text_add(text, block ? block->rule : "");
    ph__text_add(text, "\n");
}

ph_status ph_diff_text(char **out, const ph_diff *diff)
{
    static const char call[] = "ph_diff_text";
    ph__text text = {0};
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (diff == NULL)
        return ph__fail_null(call, "diff");
    for (size_t i = 0; i < diff->count; i++) {
        ph__text_add(&text, diff->changes[i].text);
        ph__text_add(&text, diff->changes[i].blocks_update ? " (blocks an update)\n" : "\n");
    }
    put_summary(&text, diff);
    *out = ph__text_detach(&text);
    return *out ? PH_OK : ph__fail_host_memory(call, "the text");
}
