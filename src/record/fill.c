/* SPDX-License-Identifier: MIT */
/* record/fill.c: writes the nodes of a record into its block of memory: the second walk. */
#include "record/fill.h"
#include "record/build.h"
#include "record/order.h"
#include "record/sparse.h"
#include "record/words.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char *keep_name(ph__builder *b, const char *name)
{
    size_t bytes = strlen(name) + 1;
    char *kept = b->names;
    memcpy(kept, name, bytes);
    b->names += bytes;
    return kept;
}

static const char *write_name(ph__builder *b, const ph__word_slot *slot)
{
    char *name = b->names;
    b->names += ph__word_name(name, SIZE_MAX, slot) + 1;
    return name;
}

/* The words of this node are the next ones: both walks are in the record's order. */
static void store_found(ph__builder *b, ph__record_node *node)
{
    node->kept = b->sparse_words;
    node->places = b->places;
    node->kept_count = b->found_counts[node->info.index];
    b->places += node->kept_count;
    node->info.word_count = ph__words_of_sparse(node->info.args_size);
}

static ph_status fill_kernel(ph__builder *b, ph__record_node *node, const ph__drv_node_info *info,
                             ph_kernel *kernel)
{
    node->kernel = kernel;
    memcpy(node->info.grid, info->launch.grid, sizeof node->info.grid);
    memcpy(node->info.block, info->launch.block, sizeof node->info.block);
    node->info.shared_bytes = info->launch.shared_bytes;
    node->info.args_size = info->args_size;
    if (ph__words_are_sparse(kernel != NULL, info->args_size)) {
        node->info.args = info->launch.args;
        store_found(b, node);
        return PH_OK;
    }
    if (info->args_size) {
        node->info.args = b->args;
        memcpy(b->args, info->launch.args, info->args_size);
        b->args += ph__args_room(info->args_size);
    }
    PH_TRY(ph__build_lay_out(b, kernel, info->args_size));
    const bool anywhere = ph__own_has_node_memory(&b->own);
    for (size_t i = 0; i < b->layout.slots.count; i++) {
        const struct ph__word_place *place = &b->layout.slots.at[i];
        ph_word *word = b->words++;
        ph__word_put(word, &place->slot, node->info.args,
                     place->lasting ? place->lasting : write_name(b, &place->slot));
        /* most are numbers, and lie nowhere */
        if (place->slot.class != PH__CLASS_VALUE && word->value != 0 &&
            (anywhere || ph__memory_bounds_have(&b->own.seen->bounds, (uintptr_t)word->value)))
            ph__word_look_up(word, b->device, &b->own);
    }
    return PH_OK;
}

static void fill_copy(ph__builder *b, ph__record_node *node, const ph__drv_memcpy *copy)
{
    node->info.dst = copy->dst;
    node->info.src = copy->src;
    node->info.bytes = copy->bytes;
    ph__word_address(b->words++, b->device, &b->own, "dst", 0, copy->dst);
    ph__word_address(b->words++, b->device, &b->own, "src", sizeof(void *), copy->src);
}

static void fill_fill(ph__builder *b, ph__record_node *node, const ph__drv_memset *fill)
{
    node->info.dst = fill->dst;
    node->info.bytes = fill->count * fill->value_size;
    node->info.value = fill->value;
    node->info.value_size = fill->value_size;
    node->count = fill->count;
    ph__word_address(b->words++, b->device, &b->own, "dst", 0, fill->dst);
}

/* CUDA takes at most 255 operations in one node; what came behind them would have the last name. */
enum {
    OPS = 256
};
static char op_names[OPS][sizeof "op 255"];

static void name_ops(void)
{
    for (unsigned i = 0; i < OPS; i++)
        (void)snprintf(op_names[i], sizeof op_names[i], "op %u", i % OPS);
}

static const char *op_name(size_t op)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, name_ops);
    return op_names[op < OPS ? op : OPS - 1];
}

static void fill_ops(ph__builder *b, const ph__drv_node_info *info)
{
    for (size_t i = 0; i < info->op_count; i++)
        ph__word_address(b->words++, b->device, &b->own, op_name(i), i * sizeof(void *),
                         info->op_addresses[i]);
}

/* Ascending. Two edges between the same nodes, one of them programmatic, say no more than the
 * one that is full. */
static void add_dependency(ph__builder *b, size_t *count, size_t on, ph_edge_kind kind)
{
    size_t at = *count;
    while (at > 0 && b->edges[at - 1] > on)
        at--;
    if (at > 0 && b->edges[at - 1] == on) {
        b->kinds[at - 1] = kind == PH_EDGE_FULL ? kind : b->kinds[at - 1];
        return;
    }
    memmove(b->edges + at + 1, b->edges + at, (*count - at) * sizeof *b->edges);
    memmove(b->kinds + at + 1, b->kinds + at, (*count - at) * sizeof *b->kinds);
    b->edges[at] = on;
    b->kinds[at] = kind;
    ++*count;
}

static void fill_dependencies(ph__builder *b, ph__record_node *node, const ph__drv_node_info *info,
                              size_t created_at)
{
    size_t count = 0;
    node->dependencies = b->edges;
    node->dependency_kinds = b->kinds;
    for (size_t d = 0; d < info->dependency_count; d++)
        add_dependency(b, &count,
                       b->index[ph__build_place_of(b, created_at, info->dependencies[d])],
                       info->dependency_kinds ? info->dependency_kinds[d] : PH_EDGE_FULL);
    node->info.dependency_count = count;
    b->record->edge_count += count;
    b->edges += count;
    b->kinds += count;
}

static void fill_rows(ph__builder *b, ph__record_node *node, const ph__drv_node_info *info)
{
    size_t room = ph__rows_room(info);
    ph__drv_rows *rows = (ph__drv_rows *)(void *)b->args;
    if (room == 0)
        return;
    rows[0] = info->to;
    rows[1] = info->from;
    node->rows = rows;
    b->args += room;
}

static void fill_memory(ph__record_node *node, const ph__drv_node_info *info)
{
    node->info.dst = info->memory;
    node->info.bytes = info->kind == PH_NODE_MEM_ALLOC ? info->memory_bytes : 0;
}

static ph_status fill_body(ph__builder *b, ph__record_node *node, ph__drv_graph *graph)
{
    ph__own_memory own = {.capture = b->own.nested,
                          .nested = b->own.nested,
                          .nodes = b->own.nodes,
                          .past = b->own.past};
    ph_record *body;
    PH_TRY(ph__record_build(&body, b->device, graph, &own, b->call));
    node->info.body = body;
    return PH_OK;
}

static ph_status fill_node(ph__builder *b, size_t i)
{
    ph__record_node *node = &b->record->nodes[i];
    size_t at = b->order[i];
    const ph__drv_node_info *info = &b->infos[at];
    const char *name = ph__build_lasting_name(b, at);
    const ph_word *words = b->words;
    node->handle = b->created[at];
    node->created = at;
    node->info.index = i;
    node->info.kind = info->kind;
    node->form = info->form;
    fill_rows(b, node, info);
    node->info.name = name ? name : keep_name(b, info->kernel_name);
    node->kept = words;
    fill_dependencies(b, node, info, at);
    if (info->kind == PH_NODE_KERNEL)
        PH_TRY(fill_kernel(b, node, info, b->kernels[at]));
    else if (info->kind == PH_NODE_MEMCPY)
        fill_copy(b, node, &info->copy);
    else if (info->kind == PH_NODE_MEMSET)
        fill_fill(b, node, &info->fill);
    else if (info->kind == PH_NODE_MEM_ALLOC || info->kind == PH_NODE_MEM_FREE)
        fill_memory(node, info);
    else if (info->kind == PH_NODE_BATCH_MEM_OP)
        fill_ops(b, info);
    else if (info->kind == PH_NODE_HOST)
        node->host_user = info->host.user;
    if (!node->places)
        node->info.word_count = node->kept_count = (size_t)(b->words - words);
    b->record->node_count = i + 1;
    return info->kind == PH_NODE_GRAPH && info->body ? fill_body(b, node, info->body) : PH_OK;
}

/* Walking the nodes in order makes each list of dependents ascending. */
static void fill_dependents(ph__builder *b)
{
    ph_record *record = b->record;
    for (size_t i = 0; i < b->count; i++)
        for (size_t d = 0; d < record->nodes[i].info.dependency_count; d++)
            record->nodes[record->nodes[i].dependencies[d]].info.dependent_count++;
    for (size_t i = 0; i < b->count; i++) {
        record->nodes[i].dependents = b->edges;
        b->edges += record->nodes[i].info.dependent_count;
        record->nodes[i].info.dependent_count = 0;
    }
    for (size_t i = 0; i < b->count; i++)
        for (size_t d = 0; d < record->nodes[i].info.dependency_count; d++) {
            ph__record_node *from = &record->nodes[record->nodes[i].dependencies[d]];
            ((size_t *)(uintptr_t)from->dependents)[from->info.dependent_count++] = i;
        }
}

ph_status ph__build_fill(ph__builder *b)
{
    const ph__found *found = &b->found;
    b->sparse_words = b->words;
    if (found->words.count)
        memcpy(b->words, found->words.at, found->words.count * sizeof *b->words);
    if (found->places.count)
        memcpy(b->places, found->places.at, found->places.count * sizeof *b->places);
    b->words += found->words.count;
    for (size_t i = 0; i < b->count; i++)
        PH_TRY(fill_node(b, i));
    fill_dependents(b);
    return PH_OK;
}
