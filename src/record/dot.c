/* SPDX-License-Identifier: MIT */
/* record/dot.c: the record as Graphviz DOT. */
#include "record/dot.h"
#include "base/demangle.h"
#include "base/text.h"
#include "record/foreign.h"
#include "record/record.h"
#include "record/words.h"
#include <inttypes.h>
#include <string.h>

/* Names come from users: quotes and backslashes would end the label. */
static void put_escaped(ph__text *text, const char *name)
{
    while (*name) {
        size_t plain = strcspn(name, "\"\\");
        ph__text_add_shown(text, name, plain);
        name += plain;
        if (*name) {
            ph__text_add(text, "\\");
            ph__text_add_bytes(text, name++, 1);
        }
    }
}

static const char *shape_of(ph_node_kind kind)
{
    switch (kind) {
    case PH_NODE_KERNEL:
        return "box";
    case PH_NODE_MEMCPY:
    case PH_NODE_MEMSET:
        return "cds";
    case PH_NODE_HOST:
        return "hexagon";
    case PH_NODE_GRAPH:
        return "folder";
    case PH_NODE_EMPTY:
        return "point";
    case PH_NODE_EVENT_WAIT:
    case PH_NODE_EVENT_RECORD:
    case PH_NODE_SEMAPHORE_SIGNAL:
    case PH_NODE_SEMAPHORE_WAIT:
    case PH_NODE_BATCH_MEM_OP:
        return "diamond";
    case PH_NODE_MEM_ALLOC:
    case PH_NODE_MEM_FREE:
        return "cylinder";
    case PH_NODE_CONDITIONAL:
        return "folder";
    }
    return "box";
}

static void put_details(ph__text *text, const ph_record *record, const ph__record_node *node)
{
    const ph_node_info *i = &node->info;
    if (i->kind == PH_NODE_KERNEL) {
        ph__text_format(text, "\\l<<<%u,%u,%u, %u,%u,%u", i->grid[0], i->grid[1], i->grid[2],
                        i->block[0], i->block[1], i->block[2]);
        if (i->shared_bytes)
            ph__text_format(text, ", %zu", i->shared_bytes);
        ph__text_add(text, ">>>");
    }
    if (i->kind == PH_NODE_MEM_ALLOC || i->kind == PH_NODE_MEM_FREE)
        ph__text_format(text, "\\l0x%" PRIxPTR, (uintptr_t)i->dst);
    if (i->kind == PH_NODE_MEMCPY || i->kind == PH_NODE_MEMSET || i->kind == PH_NODE_MEM_ALLOC)
        ph__text_format(text, "\\l%zu bytes", i->bytes);
    if (i->kind == PH_NODE_MEMSET)
        ph__text_format(text, " of 0x%x", i->value);
    for (size_t w = 0; w < i->word_count; w++) {
        ph_word room;
        const ph_word *word = ph__record_look_up_foreign(&room, record, node, w);
        ph__text_add(text, "\\l");
        put_escaped(text, word->name);
        ph__text_format(text, " = 0x%" PRIx64, word->value);
        if (word->kind != PH_WORD_VALUE)
            ph__text_format(text, " (%s%s)", ph__word_kind_name(word->kind),
                            word->internal  ? ", internal"
                            : word->foreign ? ", foreign"
                                            : "");
    }
    ph__text_add(text, "\\l");
}

static void put_value(ph__text *text, const ph_annotation_pair *pair)
{
    if (pair->type == PH_ANNOTATION_TEXT)
        put_escaped(text, pair->text);
    else if (pair->type == PH_ANNOTATION_INTEGER)
        ph__text_format(text, "%" PRId64, pair->integer);
    else if (pair->type == PH_ANNOTATION_REAL)
        ph__text_format(text, "%.9g", pair->real);
    else
        ph__text_add(text, pair->boolean ? "true" : "false");
}

/* The name first, then the other pairs. */
static void put_annotation(ph__text *text, const ph__annotation *annotation)
{
    const char *name = ph__annotation_name(annotation), *between = name[0] ? ", " : "";
    put_escaped(text, name);
    for (size_t i = 0; i < annotation->count; i++) {
        const ph_annotation_pair *pair = &annotation->pairs[i];
        if (pair->text == name)
            continue;
        ph__text_add(text, between);
        put_escaped(text, pair->key);
        ph__text_add(text, "=");
        put_value(text, pair);
        between = ", ";
    }
}

/* Nodes that follow one another in the record and have one annotation stand in a box of their
 * own. */
static void put_box(ph__text *text, const ph_record *record, size_t n, const char *prefix)
{
    const ph__annotation *annotation = record->nodes[n].annotation,
                         *before = n > 0 ? record->nodes[n - 1].annotation : NULL;
    if (annotation == before)
        return;
    if (before)
        ph__text_add(text, "    }\n");
    if (annotation == NULL)
        return;
    ph__text_format(text, "    subgraph cluster_scope_%s%zu {\n    style=dotted;\n    label=\"",
                    prefix, n);
    put_annotation(text, annotation);
    ph__text_add(text, "\";\n");
}

/* After all nodes: one that is first named inside a box would belong to it. */
static void put_edges(ph__text *text, const ph_record *record, const char *prefix)
{
    for (size_t n = 0; n < record->node_count; n++) {
        const ph__record_node *node = &record->nodes[n];
        for (size_t d = 0; d < node->info.dependency_count; d++)
            ph__text_format(
                text, "    %s%zu -> %s%zu%s;\n", prefix, node->dependencies[d], prefix, n,
                node->dependency_kinds[d] == PH_EDGE_PROGRAMMATIC ? " [style=dashed]" : "");
    }
}

static void put_name(ph__text *text, const ph_record *record, const char *name)
{
    char room[PH__READABLE];
    put_escaped(text, ph__record_readable(room, record, name));
}

/* prefix tells the nodes of nested bodies apart. */
static void put_nodes(ph__text *text, const ph_record *record, const char *prefix, bool verbose)
{
    for (size_t n = 0; n < record->node_count; n++) {
        const ph__record_node *node = &record->nodes[n];
        put_box(text, record, n, prefix);
        ph__text_format(text, "    %s%zu [shape=%s, label=\"%zu: ", prefix, n,
                        shape_of(node->info.kind), n);
        put_name(text, record, node->info.name);
        if (verbose)
            put_details(text, record, node);
        ph__text_add(text, "\"];\n");
        if (node->info.body == NULL)
            continue;
        ph__text name = {0};
        ph__text_format(&name, "%s%zu_", prefix, n);
        char *nested = ph__text_detach(&name);
        text->failed = text->failed || nested == NULL;
        ph__text_format(text, "    subgraph cluster_%s%zu {\n    label=\"body of %zu\";\n", prefix,
                        n, n);
        if (nested)
            put_nodes(text, node->info.body, nested, verbose);
        ph__text_add(text, "    }\n");
        ph__free(nested);
    }
    if (record->node_count && record->nodes[record->node_count - 1].annotation)
        ph__text_add(text, "    }\n");
    put_edges(text, record, prefix);
}

void ph__record_to_dot(ph__text *text, const ph_record *record, bool verbose)
{
    ph__text_add(
        text,
        "digraph phonograph {\n    rankdir=TB;\n    node [fontname=\"monospace\", fontsize=10];\n");
    put_nodes(text, record, "n", verbose);
    ph__text_add(text, "}\n");
}

ph_status ph_record_dot(char **out, const ph_record *record, bool verbose)
{
    ph__text text = {0};
    if (out == NULL)
        return ph__fail_null("ph_record_dot", "out");
    *out = NULL;
    if (record == NULL)
        return ph__fail_null("ph_record_dot", "record");
    ph__record_to_dot(&text, record, verbose);
    *out = ph__text_detach(&text);
    return *out ? PH_OK : ph__fail_host_memory("ph_record_dot", "the text");
}
