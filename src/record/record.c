/* SPDX-License-Identifier: MIT */
/* record/record.c: reads a captured graph back from the driver, once, into one block of memory. */
#include "base/alloc.h"
#include "memory/observe/lookup.h"
#include "record/annotations.h"
#include "record/build.h"
#include "record/fill.h"
#include "record/foreign.h"
#include "record/order.h"
#include "record/sparse.h"
#include "record/words.h"
#include <stdatomic.h>
#include <string.h>

static ph_status read_node(ph__drv_node_info *out, const ph__builder *b, ph__drv_node *node)
{
    memset(out, 0, sizeof *out);
    int result = b->device->driver->node_info(out, node);
    return result == PH__R_OK
               ? PH_OK
               : ph__driver_fail(result, PH__NAME_GRAPH_KERNEL_NODE_GET_PARAMS,
                                 "%s: a node of the captured graph could not be read back",
                                 b->call);
}

static void release_kernels(ph__record_kernels *held)
{
    for (size_t i = 0; i < held->count; i++)
        ph_kernel_release(held->at[i]);
    ph__vec_free(held);
}

/* Reads all nodes. Runs of one kernel ask the registry once. */
static ph_status read_nodes(ph__builder *b)
{
    const ph__drv_kernel *last = NULL;
    ph_kernel *kernel = NULL;
    for (size_t i = 0; i < b->count; i++) {
        PH_TRY(read_node(&b->infos[i], b, b->created[i]));
        if (b->infos[i].kind != PH_NODE_KERNEL || !b->infos[i].kernel)
            continue;
        if (b->infos[i].kernel != last) {
            kernel = ph__kernel_acquire(b->device, b->infos[i].kernel);
            if (kernel && !ph__vec_push(&b->held, kernel)) {
                ph_kernel_release(kernel);
                return ph__fail_host_memory(b->call, "the kernels of the captured graph");
            }
        }
        last = b->infos[i].kernel;
        b->kernels[i] = kernel;
    }
    return PH_OK;
}

/* ---- the first walk ---- */
static ph_status count_node(ph__builder *b, size_t at)
{
    const ph__drv_node_info *info = &b->infos[at];
    b->all.edges += info->dependency_count;
    if (!ph__build_lasting_name(b, at))
        b->all.names += strlen(info->kernel_name) + 1;
    if (info->kind == PH_NODE_MEMCPY)
        b->all.words += 2;
    if (info->kind == PH_NODE_MEMSET)
        b->all.words += 1;
    if (info->kind == PH_NODE_BATCH_MEM_OP)
        b->all.words += info->op_count;
    if (info->kind == PH_NODE_MEM_ALLOC && info->memory) {
        ph__node_memory_range span = {(uintptr_t)info->memory,
                                      info->memory_bytes ? info->memory_bytes : 1};
        if (!ph__vec_push(&b->given.spans, span))
            return ph__fail_host_memory(b->call, "the record of the captured graph");
    }
    b->all.args += ph__rows_room(info);
    if (info->kind != PH_NODE_KERNEL)
        return PH_OK;
    if (ph__words_are_sparse(b->kernels[at] != NULL, info->args_size))
        return PH_OK;
    b->all.args += ph__args_room(info->args_size);
    PH_TRY(ph__build_lay_out(b, b->kernels[at], info->args_size));
    b->all.words += b->layout.slots.count;
    b->all.names += b->layout.names;
    return PH_OK;
}

static bool is_sparse(const ph__builder *b, size_t at)
{
    return b->infos[at].kind == PH_NODE_KERNEL &&
           ph__words_are_sparse(b->kernels[at] != NULL, b->infos[at].args_size);
}

/* Drops words that turned out to be numbers, node by node. */
static void drop_numbers(ph__builder *b)
{
    size_t from = 0, to = 0;
    for (size_t i = 0; i < b->count; i++) {
        size_t count = b->found_counts[i];
        memmove(&b->found.places.at[to], &b->found.places.at[from], count * sizeof(ph__place));
        b->found_counts[i] = ph__places_keep(&b->found.places.at[to], count, &b->found);
        from += count;
        to += b->found_counts[i];
    }
    b->found.places.count = to;
}

/* When all memory nodes have been met: what they give is the capture's own. */
static ph_status find_sparse(ph__builder *b)
{
    enum {
        PLACES = 32, /* of a product of cuBLASLt, at most, and of values that only it has */
        VALUES = 6
    };
    size_t sparse = 0;
    for (size_t i = 0; i < b->count; i++)
        sparse += is_sparse(b, i);
    if (sparse == 0)
        return PH_OK;
    if (!ph__vec_reserve(&b->found.places, sparse * PLACES) ||
        !ph__vec_reserve(&b->found.words, sparse * VALUES))
        return ph__fail_host_memory(b->call, "the record of the captured graph");
    for (size_t i = 0; i < b->count; i++) {
        size_t at = b->order[i], before = b->found.places.count;
        const ph__drv_node_info *info = &b->infos[at];
        if (is_sparse(b, at) &&
            !ph__words_find(&b->found, &b->own, info->launch.args, info->args_size))
            return ph__fail_host_memory(b->call, "the record of the captured graph");
        b->found_counts[i] = b->found.places.count - before;
    }
    ph__words_look_up(&b->found, b->device, &b->own);
    if (b->found.numbers)
        drop_numbers(b);
    return PH_OK;
}

uint64_t ph__record_next_id(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static ph_status make_room(ph__builder *b)
{
    size_t head = ph__args_room(sizeof(ph_record)),
           nodes = ph__args_room(b->count * sizeof(ph__record_node));
    size_t words = ph__args_room((b->all.words + b->found.words.count) * sizeof(ph_word)),
           edges = ph__args_room(2 * b->all.edges * sizeof(size_t)),
           kinds = ph__args_room(b->all.edges * sizeof(ph_edge_kind));
    size_t places = ph__args_room(b->found.places.count * sizeof(ph__place));
    size_t bytes = head + nodes + words + places + edges + kinds + b->all.args + b->all.names;
    char *block = ph__alloc(bytes);
    if (block == NULL)
        return ph__fail_host_memory(b->call, "the record of the captured graph");
    memset(block, 0, head + nodes); /* all that is behind is written whole */
    b->record = (ph_record *)(void *)block;
    b->record->id = ph__record_next_id();
    b->record->bytes = bytes;
    b->record->nodes = (ph__record_node *)(void *)(block + head);
    b->words = (ph_word *)(void *)(block + head + nodes);
    b->places = (ph__place *)(void *)(block + head + nodes + words);
    b->edges = (size_t *)(void *)(block + head + nodes + words + places);
    b->kinds = (ph_edge_kind *)(void *)(block + head + nodes + words + places + edges);
    b->args = block + head + nodes + words + places + edges + kinds;
    b->names = b->args + b->all.args;
    return PH_OK;
}

static ph_status build_record(ph__builder *b)
{
    b->order = ph__calloc(b->count + 1, sizeof *b->order);
    b->index = ph__calloc(b->count + 1, sizeof *b->index);
    b->infos = ph__alloc((b->count + 1) * sizeof *b->infos);
    b->kernels = ph__calloc(b->count + 1, sizeof *b->kernels);
    b->found_counts = ph__calloc(b->count + 1, sizeof *b->found_counts);
    if (b->found_counts == NULL || b->order == NULL || b->index == NULL || b->infos == NULL ||
        b->kernels == NULL)
        return ph__fail_host_memory(b->call, "the record of the captured graph");
    PH_TRY(read_nodes(b));
    PH_TRY(ph__build_order(b));
    for (size_t i = 0; i < b->count; i++)
        PH_TRY(count_node(b, i));
    PH_TRY(find_sparse(b));
    PH_TRY(make_room(b));
    return ph__build_fill(b);
}

ph_status ph__record_build(ph_record **out, ph_device *device, ph__drv_graph *graph,
                           const ph__own_memory *own, const char *call)
{
    ph__builder b = {.device = device, .own = *own, .call = call};
    ph__lookups seen = {0};
    ph__memory_read_bounds(&seen.bounds, device);
    b.given.outer = own->nodes;
    b.own.nodes = &b.given;
    b.own.seen = &seen;
    *out = NULL;
    int result = device->driver->graph_nodes(&b.created, &b.count, graph);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_GRAPH_GET_NODES,
                               "%s: the captured graph could not be read back", call);
    ph_status status = build_record(&b);
    if (b.record)
        b.record->held = b.held;
    else
        release_kernels(&b.held);
    ph__map_free(&b.position);
    ph__vec_free(&b.given.spans);
    ph__vec_free(&b.found.places);
    ph__vec_free(&b.found.words);
    ph__free(b.found_counts);
    ph__free(b.order);
    ph__free(b.index);
    ph__free(b.infos);
    ph__free(b.kernels);
    ph__vec_free(&b.layout.slots);
    if (status == PH_OK)
        *out = b.record;
    else
        ph__record_free(b.record);
    return status;
}

void ph__record_put_args(ph_record *record, size_t node, const ph_device *device,
                         const ph__own_memory *own, const void *args)
{
    ph__record_node *to = node < record->node_count ? &record->nodes[node] : NULL;
    if (to == NULL || to->info.args == NULL || to->places)
        return;
    memcpy((void *)(uintptr_t)to->info.args, args, to->info.args_size);
    ph__words words = {to->kernel, to->info.args_size, 0, 0};
    ph__word_slot slot;
    for (size_t i = 0; i < to->kept_count && ph__words_next(&words, &slot); i++) {
        ph_word *word = (ph_word *)(uintptr_t)&to->kept[i];
        ph__word_read(word, device, own, &slot, to->info.args, word->name);
    }
}

void ph__record_free(ph_record *record)
{
    if (record == NULL)
        return;
    for (size_t i = 0; !record->made && i < record->node_count; i++)
        ph__record_free((ph_record *)(uintptr_t)record->nodes[i].info.body);
    ph__record_drop_annotations(record);
    ph__record_drop_foreign(record);
    release_kernels(&record->held);
    ph__free(record);
}

size_t ph__record_bytes(const ph_record *record)
{
    size_t bytes = record ? record->bytes + ph__record_annotation_bytes(record) : 0;
    for (size_t i = 0; record && i < record->node_count; i++)
        bytes += ph__record_bytes(record->nodes[i].info.body);
    return bytes;
}

size_t ph__record_index_of(const ph_record *record, const ph__drv_node *handle)
{
    for (size_t i = 0; handle && i < record->node_count; i++)
        if (record->nodes[i].handle == handle)
            return i;
    return SIZE_MAX;
}
