/* SPDX-License-Identifier: MIT */
/* record/create.c: records of what somebody says, a file mostly: all of it checked, and copied
 * into one block as record.c does. */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/line.h"
#include "device/annotate/annotation.h"
#include "device/annotate/pairs.h"
#include "record/record.h"
#include <phonograph/inspect/diff.h>
#include <string.h>

enum {
    DEEPEST = 32,        /* bodies in one another, of which readers go down one at a time */
    MOST_ARGS = 1 << 20, /* bytes of a kernel's parameters */
    MOST_PAIRS = 1000    /* of one node's annotation */
};

/* Bytes of bodies, each counted for every node that it is in: as it may be in many, a few
 * records could take readers forever. */
static const uint64_t most_nested = UINT64_C(4) << 30;

static const char call[] = "ph_record_create";

/* The contents of the block, and where the next of each goes. */
typedef struct room {
    size_t words, edges, args, names;
    uint64_t nested;
} room;
typedef struct maker {
    ph_record *record;
    ph_word *words;
    size_t *edges;
    ph_edge_kind *kinds;
    char *args, *names;
} maker;

PH_PRINTF(2, 3)
static ph_status bad_node(size_t node, const char *format, ...)
{
    char why[200];
    va_list args;
    va_start(args, format);
    ph__line_vformat(why, sizeof why, format, args);
    va_end(args);
    return ph_fail(PH_ERROR_ARGUMENT, "%s: node %zu: %s", call, node, why);
}

/* ---- checks ---- */

static ph_status check_dependencies(const ph_record_source_node *node, size_t index)
{
    size_t count = node->info.dependency_count;
    if (count && node->dependencies == NULL)
        return bad_node(index, "dependencies is NULL, but dependency_count is %zu", count);
    for (size_t d = 0; d < count; d++) {
        if (node->dependencies[d] >= index)
            return bad_node(index, "depends on node %zu, which does not come before it",
                            node->dependencies[d]);
        if (d > 0 && node->dependencies[d] <= node->dependencies[d - 1])
            return bad_node(index, "its dependencies do not ascend");
        if (node->dependency_kinds && (unsigned)node->dependency_kinds[d] > PH_EDGE_PROGRAMMATIC)
            return bad_node(index, "dependency %zu is of kind %d, which is none of ph_edge_kind", d,
                            (int)node->dependency_kinds[d]);
    }
    return PH_OK;
}

static ph_status check_words(const ph_record_source_node *node, size_t index)
{
    size_t count = node->info.word_count;
    if (count && node->words == NULL)
        return bad_node(index, "words is NULL, but word_count is %zu", count);
    for (size_t w = 0; w < count; w++) {
        const ph_word *word = &node->words[w];
        if ((unsigned)word->kind > PH_WORD_PROVED)
            return bad_node(index, "word %zu is of kind %d, which is none of ph_word_kind", w,
                            (int)word->kind);
        if (word->name == NULL)
            return bad_node(index, "word %zu has no name", w);
        if (w > 0 && word->offset <= word[-1].offset)
            return bad_node(index, "the offsets of its words do not ascend");
        if (node->info.kind == PH_NODE_KERNEL && word->offset >= node->info.args_size)
            return bad_node(index, "word %zu lies behind the %zu bytes of parameters", w,
                            node->info.args_size);
    }
    return PH_OK;
}

static ph_status check_annotation(const ph_record_source_node *node, size_t index)
{
    size_t count = node->annotation_count;
    if (count && node->annotation == NULL)
        return bad_node(index, "annotation is NULL, but annotation_count is %zu", count);
    if (count > MOST_PAIRS)
        return bad_node(index, "its annotation has %zu pairs; at most %d are read", count,
                        MOST_PAIRS);
    for (size_t i = 0; i < count; i++) {
        const ph_annotation_pair *pair = &node->annotation[i];
        if (pair->key == NULL || pair->key[0] == '\0')
            return bad_node(index, "pair %zu of its annotation has no key", i);
        if ((unsigned)pair->type > PH_ANNOTATION_BOOL)
            return bad_node(
                index,
                "pair %zu of its annotation has type %d, which is none of ph_annotation_type", i,
                (int)pair->type);
        if (pair->type == PH_ANNOTATION_TEXT && pair->text == NULL)
            return bad_node(index, "pair %zu of its annotation is a text, and its text is NULL", i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(node->annotation[k].key, pair->key) == 0)
                return bad_node(index, "pairs %zu and %zu of its annotation have the same key", k,
                                i);
    }
    return PH_OK;
}

static ph_status check_node(const ph_record_source_node *node, size_t index)
{
    const ph_node_info *info = &node->info;
    if (!PH__RESERVED_OK(info))
        return ph__fail_reserved(call, "ph_node_info");
    if ((unsigned)info->kind > PH_NODE_CONDITIONAL)
        return bad_node(index, "kind is %d, which is none of ph_node_kind", (int)info->kind);
    if (info->args_size && info->kind != PH_NODE_KERNEL)
        return bad_node(index, "has parameters and is no kernel");
    if (info->args_size > MOST_ARGS)
        return bad_node(index, "has %zu bytes of parameters; at most %d are read", info->args_size,
                        MOST_ARGS);
    if (info->kind == PH_NODE_MEMSET && info->value_size != 1 && info->value_size != 2 &&
        info->value_size != 4)
        return bad_node(index, "elements of %u bytes; 1, 2 and 4 there are",
                        (unsigned)info->value_size);
    if (info->body && info->kind != PH_NODE_GRAPH)
        return bad_node(index, "has a body and is no graph");
    if (info->body && info->body->depth + 1 >= DEEPEST)
        return bad_node(index, "bodies are nested deeper than %d", DEEPEST);
    PH_TRY(check_dependencies(node, index));
    PH_TRY(check_words(node, index));
    return check_annotation(node, index);
}

/* One that was captured is the only one that has its bodies. */
static uint64_t bytes_of_body(const ph_record *body)
{
    return body->made ? body->bytes + body->nested : ph__record_bytes(body);
}

static ph_status count_body(room *all, const ph_record *body, size_t index)
{
    all->nested += body ? bytes_of_body(body) : 0;
    return all->nested <= most_nested
               ? PH_OK
               : bad_node(index,
                          "with its body, the nested graphs take more than %d GiB, "
                          "each counted for every node that it is in",
                          (int)(most_nested >> 30));
}

/* ---- room ---- */

static size_t rounded_bytes(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* Of what lies in memory already, or is limited, so that none of it overflows. */
static void count_node(room *all, const ph_record_source_node *node)
{
    const ph_node_info *info = &node->info;
    all->words += info->word_count;
    all->edges += info->dependency_count;
    all->args += rounded_bytes(info->args_size);
    all->names += info->name ? strlen(info->name) + 1 : 0;
    for (size_t w = 0; w < info->word_count; w++)
        all->names += strlen(node->words[w].name) + 1;
}

static bool make_room(maker *m, const room *all, size_t count)
{
    size_t head = rounded_bytes(sizeof(ph_record)), nodes, words, total;
    size_t edges = rounded_bytes(2 * all->edges * sizeof(size_t)),
           kinds = rounded_bytes(all->edges * sizeof(ph_edge_kind));
    if (!ph__mul(count, sizeof(ph__record_node), &nodes) ||
        !ph__mul(all->words, sizeof(ph_word), &words))
        return false;
    nodes = rounded_bytes(nodes);
    words = rounded_bytes(words);
    if (!ph__add(head + edges + kinds + all->args, nodes, &total) ||
        !ph__add(total, words, &total) || !ph__add(total, all->names, &total))
        return false;
    char *block = ph__calloc(1, total);
    if (block == NULL)
        return false;
    m->record = (ph_record *)(void *)block;
    m->record->bytes = total;
    m->record->made = true;
    m->record->nested = all->nested;
    m->record->id = ph__record_next_id();
    m->record->nodes = (ph__record_node *)(void *)(block + head);
    m->words = (ph_word *)(void *)(block + head + nodes);
    m->edges = (size_t *)(void *)(block + head + nodes + words);
    m->kinds = (ph_edge_kind *)(void *)(block + head + nodes + words + edges);
    m->args = block + head + nodes + words + edges + kinds;
    m->names = m->args + all->args;
    m->record->annotations = ph__calloc(count + 1, sizeof(ph__annotation *));
    return m->record->annotations != NULL;
}

/* ---- filling ---- */

static const char *keep_name(maker *m, const char *name)
{
    size_t bytes = strlen(name) + 1;
    char *kept = memcpy(m->names, name, bytes);
    m->names += bytes;
    return kept;
}

/* Bytes that no word fills are the zeros of its value, or the next word's bytes. */
static void put_args(char *args, const ph_record_source_node *node)
{
    size_t size = node->info.args_size;
    if (node->info.args) {
        memcpy(args, node->info.args, size);
        return;
    }
    for (size_t w = 0; w < node->info.word_count; w++) {
        size_t offset = node->words[w].offset, rest = size - offset;
        memcpy(args + offset, &node->words[w].value,
               rest < sizeof(uint64_t) ? rest : sizeof(uint64_t));
    }
}

static void fill_dependencies(maker *m, ph__record_node *to, const ph_record_source_node *node)
{
    size_t count = node->info.dependency_count;
    to->dependencies = m->edges;
    to->dependency_kinds = m->kinds;
    for (size_t d = 0; d < count; d++) {
        m->edges[d] = node->dependencies[d];
        m->kinds[d] = node->dependency_kinds ? node->dependency_kinds[d] : PH_EDGE_FULL;
    }
    m->edges += count;
    m->kinds += count;
}

/* Nodes of one scope, which follow one another, share their annotation. */
static bool has_pairs(const ph__annotation *annotation, const ph_record_source_node *node)
{
    bool same = annotation && annotation->count == node->annotation_count;
    for (size_t i = 0; same && i < node->annotation_count; i++)
        same = ph__pair_same(&annotation->pairs[i], &node->annotation[i]);
    return same;
}

static ph_status annotate_node(maker *m, const ph_record_source_node *node, size_t index)
{
    const ph__pairs pairs = {node->annotation, node->annotation_count};
    ph__annotation **to = &m->record->annotations[index];
    if (index > 0 && has_pairs(to[-1], node))
        *to = ph__annotation_retain(to[-1]);
    else
        PH_TRY(ph__annotation_make(to, &pairs, 1, call));
    m->record->annotation_count = index + 1;
    m->record->nodes[index].annotation = *to;
    return PH_OK;
}

static ph_status fill_node(maker *m, const ph_record_source_node *node, size_t index)
{
    ph__record_node *to = &m->record->nodes[index];
    to->info = node->info;
    to->info.index = to->created = index;
    to->info.dependent_count = 0;
    to->info.args = NULL;
    to->info.name =
        node->info.name ? keep_name(m, node->info.name) : ph_node_kind_name(node->info.kind);
    if (node->info.args_size) {
        put_args(m->args, node);
        to->info.args = m->args;
        m->args += rounded_bytes(node->info.args_size);
    }
    if (node->info.value_size)
        to->count = node->info.bytes / node->info.value_size;
    fill_dependencies(m, to, node);
    to->kept = m->words;
    to->kept_count = node->info.word_count;
    for (size_t w = 0; w < node->info.word_count; w++) {
        *m->words = node->words[w];
        m->words->name = keep_name(m, node->words[w].name);
        m->words++;
    }
    if (node->info.body && node->info.body->depth >= m->record->depth)
        m->record->depth = node->info.body->depth + 1;
    m->record->node_count = index + 1;
    return annotate_node(m, node, index);
}

/* Walking the nodes in order makes each list of dependents ascending. */
static void fill_dependents(maker *m, size_t edges)
{
    ph_record *record = m->record;
    for (size_t i = 0; i < record->node_count; i++)
        for (size_t d = 0; d < record->nodes[i].info.dependency_count; d++)
            record->nodes[record->nodes[i].dependencies[d]].info.dependent_count++;
    for (size_t i = 0; i < record->node_count; i++) {
        record->nodes[i].dependents = m->edges;
        m->edges += record->nodes[i].info.dependent_count;
        record->nodes[i].info.dependent_count = 0;
    }
    for (size_t i = 0; i < record->node_count; i++)
        for (size_t d = 0; d < record->nodes[i].info.dependency_count; d++) {
            ph__record_node *from = &record->nodes[record->nodes[i].dependencies[d]];
            ((size_t *)(uintptr_t)from->dependents)[from->info.dependent_count++] = i;
        }
    record->edge_count = edges;
}

ph_status ph_record_create(ph_record **out, const ph_record_source_node *nodes, size_t count)
{
    room all = {0};
    maker m = {0};
    ph_status status = PH_OK;
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (nodes == NULL && count)
        return ph__fail_null(call, "nodes");
    for (size_t i = 0; i < count; i++) {
        PH_TRY(check_node(&nodes[i], i));
        PH_TRY(count_body(&all, nodes[i].info.body, i));
        count_node(&all, &nodes[i]);
    }
    if (!make_room(&m, &all, count))
        status = ph__fail_host_memory(call, "the record");
    for (size_t i = 0; i < count && status == PH_OK; i++)
        status = fill_node(&m, &nodes[i], i);
    if (status != PH_OK) {
        ph_record_destroy(m.record);
        return status;
    }
    fill_dependents(&m, all.edges);
    *out = m.record;
    return PH_OK;
}

void ph_record_destroy(ph_record *record)
{
    if (record && record->made)
        ph__record_free(record);
}
