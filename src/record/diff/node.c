/* SPDX-License-Identifier: MIT */
/* record/diff/node.c: what differs between two nodes that stand for one another, dependencies
 * and single words apart. */
#include "record/diff/node.h"
#include "base/text.h"
#include "device/annotate/pairs.h"
#include "record/diff/diff.h"
#include "record/diff/rules.h"
#include "record/diff/words.h"
#include <inttypes.h>
#include <string.h>

/* ---- what a node is ---- */

static bool same_kernel(const ph__record_node *a, const ph__record_node *b)
{
    return strcmp(a->info.name, b->info.name) == 0;
}

static void put_what(ph__text *text, const ph__record_node *node)
{
    ph__text_add(text, ph_node_kind_name(node->info.kind));
    if (node->info.kind != PH_NODE_KERNEL)
        return;
    ph__text_add(text, " ");
    ph__put_name(text, node->info.name, 1000);
}

static void report_other_work(ph__differ *d, const ph__diff_level *level, size_t i, size_t j,
                              ph_change_kind kind, const char *rule)
{
    ph__change_begin(d, level, kind, i, j, rule);
    ph__text_add(&d->text, " is: ");
    put_what(&d->text, &level->a->nodes[i]);
    ph__text_add(&d->text, " -> ");
    put_what(&d->text, &level->b->nodes[j]);
    ph__put_probe(&d->text, &level->a->nodes[i], &level->b->nodes[j]);
    ph__change_end(d);
}

/* ---- dimensions ---- */

static void put_dims(ph__text *text, const char *name, const uint32_t dims[3])
{
    ph__text_format(text, "%s %" PRIu32 "x%" PRIu32 "x%" PRIu32, name, dims[0], dims[1], dims[2]);
}

static void put_other_dims(ph__text *text, const char **comma, const char *name,
                           const uint32_t a[3], const uint32_t b[3])
{
    if (memcmp(a, b, 3 * sizeof *a) == 0)
        return;
    ph__text_add(text, *comma);
    put_dims(text, name, a);
    put_dims(text, " ->", b);
    *comma = ", ";
}

static void compare_dims(ph__differ *d, const ph__diff_level *level, size_t i, size_t j)
{
    const ph_node_info *a = &level->a->nodes[i].info, *b = &level->b->nodes[j].info;
    const char *comma = " ";
    if (memcmp(a->grid, b->grid, sizeof a->grid) == 0 &&
        memcmp(a->block, b->block, sizeof a->block) == 0 && a->shared_bytes == b->shared_bytes)
        return;
    ph__change_begin(d, level, PH_CHANGE_DIMENSIONS, i, j, NULL);
    put_other_dims(&d->text, &comma, "grid", a->grid, b->grid);
    put_other_dims(&d->text, &comma, "block", a->block, b->block);
    if (a->shared_bytes != b->shared_bytes)
        ph__text_format(&d->text, "%sshared memory %zu -> %zu bytes", comma, a->shared_bytes,
                        b->shared_bytes);
    ph__change_end(d);
}

void ph__put_shape(ph__text *text, const ph__record_node *node)
{
    const ph_node_info *info = &node->info;
    if (info->kind == PH_NODE_KERNEL) {
        put_dims(text, ": grid", info->grid);
        put_dims(text, ", block", info->block);
    } else if (info->kind == PH_NODE_MEMCPY || info->kind == PH_NODE_MEMSET ||
               info->kind == PH_NODE_MEM_ALLOC) {
        ph__text_format(text, ": %zu bytes", info->bytes);
    } else if (info->body) {
        ph__text_format(text, ": of %zu node%s", info->body->node_count,
                        info->body->node_count == 1 ? "" : "s");
    }
}

/* ---- sizes and values ---- */

static void compare_number(ph__differ *d, const ph__diff_level *level, size_t i, size_t j,
                           ph_change_kind kind, const char *what, uint64_t a, uint64_t b,
                           const char *rule)
{
    if (a == b)
        return;
    ph__change_begin(d, level, kind, i, j, rule);
    ph__text_format(&d->text, " %s: %" PRIu64 " -> %" PRIu64, what, a, b);
    ph__change_end(d);
}

/* The rule that the pair breaks is that of its first change since; where there is none, of one
 * that tells the forms. */
static void report_rule(ph__differ *d, const ph__diff_level *level, size_t i, size_t j,
                        const char *rule, size_t since)
{
    const char *mine = level->a->nodes[i].form, *theirs = level->b->nodes[j].form;
    if (rule == NULL || d->failed)
        return;
    if (d->changes.count == since) {
        ph__change_begin(d, level, PH_CHANGE_KIND, i, j, rule);
        ph__text_format(&d->text, " is: %s -> %s", mine ? mine : "otherwise",
                        theirs ? theirs : "otherwise");
        ph__change_end(d);
    } else if (!level->fits) {
        d->changes.at[since].change.rule = rule;
        d->changes.at[since].change.blocks_update = true;
    }
}

static void compare_fill(ph__differ *d, const ph__diff_level *level, size_t i, size_t j,
                         const char *rule)
{
    const ph_node_info *a = &level->a->nodes[i].info, *b = &level->b->nodes[j].info;
    size_t before = d->changes.count;
    compare_number(d, level, i, j, PH_CHANGE_SIZE, "bytes of an element", a->value_size,
                   b->value_size, NULL);
    compare_number(d, level, i, j, PH_CHANGE_SIZE, "bytes", a->bytes, b->bytes, NULL);
    report_rule(d, level, i, j, rule, before);
    compare_number(d, level, i, j, PH_CHANGE_VALUE, "value", a->value, b->value, NULL);
    ph__diff_words(d, level, i, j);
}

/* Its rule is about the kinds of memory. */
static void compare_copy(ph__differ *d, const ph__diff_level *level, size_t i, size_t j,
                         const char *rule)
{
    compare_number(d, level, i, j, PH_CHANGE_SIZE, "bytes", level->a->nodes[i].info.bytes,
                   level->b->nodes[j].info.bytes, NULL);
    size_t before = d->changes.count;
    ph__diff_words(d, level, i, j);
    report_rule(d, level, i, j, rule, before);
}

static void compare_parameters(ph__differ *d, const ph__diff_level *level, size_t i, size_t j)
{
    const ph__record_node *a = &level->a->nodes[i], *b = &level->b->nodes[j];
    const char *rule = ph__rule_of_pair(a, b);
    switch (a->info.kind) {
    case PH_NODE_KERNEL:
        compare_dims(d, level, i, j);
        compare_number(d, level, i, j, PH_CHANGE_SIZE, "bytes of parameters", a->info.args_size,
                       b->info.args_size, NULL);
        ph__diff_words(d, level, i, j);
        break;
    case PH_NODE_MEMCPY:
        compare_copy(d, level, i, j, rule);
        break;
    case PH_NODE_MEMSET:
        compare_fill(d, level, i, j, rule);
        break;
    case PH_NODE_MEM_ALLOC:
        compare_number(d, level, i, j, PH_CHANGE_SIZE, "bytes", a->info.bytes, b->info.bytes, rule);
        break;
    default:
        ph__diff_words(d, level, i, j);
        break;
    }
}

/* ---- annotations ---- */

static const ph_annotation_pair *find_key(const ph_annotation_pair *pairs, size_t count,
                                          const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(pairs[i].key, key) == 0)
            return &pairs[i];
    return NULL;
}

static bool same_pairs(const ph_annotation_pair *a, size_t a_count, const ph_annotation_pair *b,
                       size_t b_count)
{
    bool same = a_count == b_count;
    for (size_t i = 0; i < a_count && same; i++) {
        const ph_annotation_pair *other = find_key(b, b_count, a[i].key);
        same = other && ph__pair_same(&a[i], other);
    }
    return same;
}

static void put_value(ph__text *text, const ph_annotation_pair *pair)
{
    switch (pair->type) {
    case PH_ANNOTATION_TEXT:
        ph__text_add(text, "\"");
        ph__put_name(text, pair->text ? pair->text : "", 64);
        ph__text_add(text, "\"");
        break;
    case PH_ANNOTATION_INTEGER:
        ph__text_format(text, "%" PRIi64, pair->integer);
        break;
    case PH_ANNOTATION_REAL:
        ph__text_format(text, "%.17g", pair->real);
        break;
    default:
        ph__text_add(text, pair->boolean ? "true" : "false");
    }
}

/* Writes the pairs that the other node does not have, or has with another value. */
static void put_others(ph__text *text, const ph_annotation_pair *pairs, size_t count,
                       const ph_annotation_pair *others, size_t other_count)
{
    const char *comma = "{";
    for (size_t i = 0; i < count; i++) {
        const ph_annotation_pair *other = find_key(others, other_count, pairs[i].key);
        if (other && ph__pair_same(&pairs[i], other))
            continue;
        ph__text_add(text, comma);
        ph__put_name(text, pairs[i].key, 64);
        ph__text_add(text, ": ");
        put_value(text, &pairs[i]);
        comma = ", ";
    }
    ph__text_add(text, comma[0] == '{' ? "none" : "}");
}

static void compare_annotations(ph__differ *d, const ph__diff_level *level, size_t i, size_t j)
{
    const ph_annotation_pair *a, *b;
    size_t a_count, b_count;
    ph_ignore(ph_record_annotation(&a, &a_count, level->a, i)); /* there are such nodes */
    ph_ignore(ph_record_annotation(&b, &b_count, level->b, j));
    if (same_pairs(a, a_count, b, b_count))
        return;
    ph__change_begin(d, level, PH_CHANGE_ANNOTATION, i, j, NULL);
    ph__text_add(&d->text, " annotation: ");
    put_others(&d->text, a, a_count, b, b_count);
    ph__text_add(&d->text, " -> ");
    put_others(&d->text, b, b_count, a, a_count);
    ph__change_end(d);
}

void ph__diff_node(ph__differ *d, const ph__diff_level *level, size_t i, size_t j)
{
    const ph__record_node *a = &level->a->nodes[i], *b = &level->b->nodes[j];
    if (a->info.kind != b->info.kind)
        report_other_work(d, level, i, j, PH_CHANGE_KIND, ph__rule_kind);
    else if (a->info.kind == PH_NODE_KERNEL && !same_kernel(a, b))
        report_other_work(d, level, i, j, PH_CHANGE_KERNEL, NULL);
    else
        compare_parameters(d, level, i, j);
    compare_annotations(d, level, i, j);
}
