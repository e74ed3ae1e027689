/* SPDX-License-Identifier: MIT */
/* record/record.c: reads a captured graph back from the driver, once, into one block of memory. */
#include "record/record.h"
#include "base/alloc.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* What the block of memory must hold; the first of two walks counts it, the second fills it. */
typedef struct totals {
    size_t nodes, edges, words, args, names;
} totals;

/* The words of a launch, which are those of the launch before it as long as the kernel is the same. */
typedef struct layout {
    bool known;
    const ph_kernel *kernel;
    size_t args_size, names; /* bytes of the names that do not last */
    PH__VEC(struct word_place {
        ph__word_slot slot;
        const char *lasting; /* its name; NULL: it is written anew for each word */
    })
    slots;
} layout;

typedef struct builder {
    ph_device *device;
    ph__own_memory own;
    ph__given given;
    const char *call;
    ph__drv_node *const *created; /* the driver's nodes in order of creation */
    ph__drv_node_info *infos;     /* of each of them, read once */
    ph__found_words found;        /* of the sparse nodes, in the record's order; how many each has: */
    size_t *found_counts;
    const ph_word *next_found;
    ph_kernel **kernels;
    size_t count;
    layout layout;
    ph__map position;      /* node handle -> 1 + its place in `created` */
    size_t *order, *index; /* order[i]: place in `created` of node i; index: the inverse */
    totals all;
    ph_record *record;
    ph_word *words; /* where the next word, argument and name go */
    size_t *edges;
    ph_edge_kind *kinds; /* of dependencies alone */
    char *args, *names;
} builder;

static size_t args_room(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

static ph_status read_node(ph__drv_node_info *out, const builder *b, ph__drv_node *node)
{
    memset(out, 0, sizeof *out);
    int result = b->device->driver->node_info(out, node);
    return result == PH__R_OK
               ? PH_OK
               : ph__driver_fail(result, PH__NAME_GRAPH_KERNEL_NODE_GET_PARAMS,
                                 "%s: a node of the captured graph could not be read back", b->call);
}

/* Reads all nodes. Runs of one kernel ask the registry once. */
static ph_status read_nodes(builder *b)
{
    const ph__drv_kernel *last = NULL;
    ph_kernel *kernel = NULL;
    for (size_t i = 0; i < b->count; i++) {
        PH_TRY(read_node(&b->infos[i], b, b->created[i]));
        if (b->infos[i].kind != PH_NODE_KERNEL || !b->infos[i].kernel)
            continue;
        if (b->infos[i].kernel != last)
            kernel = ph__kernel_of(b->device, b->infos[i].kernel);
        last = b->infos[i].kernel;
        b->kernels[i] = kernel;
    }
    return PH_OK;
}

/* Names that need no copy: a kind's, static, and those of our kernels, which a graph retains as long as it has the
 * record. */
static const char *lasting_name(const builder *b, size_t at)
{
    if (b->kernels[at])
        return ph_kernel_name(b->kernels[at]);
    const ph__drv_node_info *info = &b->infos[at];
    return info->kind == PH_NODE_KERNEL && info->kernel_name ? NULL : ph_node_kind_name(info->kind);
}

/* ---- order ---- */
/* The place of what the node at `near` depends on: mostly the one before it. */
static size_t place_of(const builder *b, size_t near, const ph__drv_node *node)
{
    if (near > 0 && b->created[near - 1] == node)
        return near - 1;
    return (size_t)(uintptr_t)ph__map_get(&b->position, (uint64_t)(uintptr_t)node) - 1;
}

static bool is_chain(const builder *b)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->infos[i].dependency_count > 1 ||
            (b->infos[i].dependency_count == 1 &&
             (i == 0 || b->infos[i].dependencies[0] != b->created[i - 1])))
            return false;
    return true;
}

/* Of a chain none needs to be looked up. */
static ph_status map_nodes(builder *b)
{
    if (is_chain(b))
        return PH_OK;
    if (!ph__map_reserve(&b->position, b->count))
        return ph__fail_host_memory(b->call, "the record of the captured graph");
    for (size_t i = 0; i < b->count; i++)
        ph__map_put(&b->position, (uint64_t)(uintptr_t)b->created[i], (void *)(uintptr_t)(i + 1));
    return PH_OK;
}

/* Adds to the order each node whose dependencies are in it already, until a round adds none. Captures create
 * nodes after their dependencies, so one round is the rule. */
static ph_status sort_nodes(builder *b)
{
    size_t placed = 0, before;
    for (size_t i = 0; i < b->count; i++)
        b->index[i] = SIZE_MAX;
    do {
        before = placed;
        for (size_t i = 0; i < b->count; i++) {
            const ph__drv_node_info *info = &b->infos[i];
            bool ready = b->index[i] == SIZE_MAX;
            if (!ready)
                continue;
            for (size_t d = 0; d < info->dependency_count; d++)
                ready = ready && b->index[place_of(b, i, info->dependencies[d])] != SIZE_MAX;
            if (!ready)
                continue;
            b->index[i] = placed;
            b->order[placed++] = i;
        }
    } while (placed > before && placed < b->count);
    return placed == b->count
               ? PH_OK
               : ph_fail(PH_ERROR_DEVICE, "%s: the captured graph's dependencies form a cycle", b->call);
}

/* ---- the first walk ---- */
static ph_status lay_out(builder *b, const ph_kernel *kernel, size_t args_size)
{
    layout *l = &b->layout;
    if (l->known && l->kernel == kernel && l->args_size == args_size)
        return PH_OK;
    ph__words words = {kernel, args_size, 0, 0};
    ph__word_slot slot;
    l->known = false;
    l->names = 0;
    ph__vec_clear(&l->slots);
    while (ph__words_next(&words, &slot)) {
        const struct word_place place = {slot, ph__word_lasting_name(&slot)};
        if (!ph__vec_push(&l->slots, place))
            return ph__fail_host_memory(b->call, "the record of the captured graph");
        if (!place.lasting)
            l->names += ph__word_name(NULL, 0, &slot) + 1;
    }
    l->known = true;
    l->kernel = kernel;
    l->args_size = args_size;
    return PH_OK;
}

static ph_status count_node(builder *b, size_t at)
{
    const ph__drv_node_info *info = &b->infos[at];
    b->all.edges += info->dependency_count;
    if (!lasting_name(b, at))
        b->all.names += strlen(info->kernel_name) + 1;
    if (info->kind == PH_NODE_MEMCPY)
        b->all.words += 2;
    if (info->kind == PH_NODE_MEMSET)
        b->all.words += 1;
    if (info->kind == PH_NODE_BATCH_MEM_OP)
        b->all.words += info->op_count;
    if (info->kind == PH_NODE_MEM_ALLOC && info->memory) {
        ph__given_span span = {(uintptr_t)info->memory, info->memory_bytes ? info->memory_bytes : 1};
        if (!ph__vec_push(&b->given.spans, span))
            return ph__fail_host_memory(b->call, "the record of the captured graph");
    }
    if (info->kind != PH_NODE_KERNEL)
        return PH_OK;
    b->all.args += args_room(info->args_size);
    if (ph__words_are_sparse(b->kernels[at] != NULL, info->args_size))
        return PH_OK;
    PH_TRY(lay_out(b, b->kernels[at], info->args_size));
    b->all.words += b->layout.slots.count;
    b->all.names += b->layout.names;
    return PH_OK;
}

/* When all memory nodes have been met: what they give is the capture's own. */
static ph_status find_sparse(builder *b)
{
    for (size_t i = 0; i < b->count; i++) {
        size_t at = b->order[i], before = b->found.count;
        const ph__drv_node_info *info = &b->infos[at];
        if (info->kind == PH_NODE_KERNEL && ph__words_are_sparse(b->kernels[at] != NULL, info->args_size) &&
            !ph__words_find(&b->found, b->device, &b->own, info->launch.args, info->args_size))
            return ph__fail_host_memory(b->call, "the record of the captured graph");
        b->found_counts[i] = b->found.count - before;
    }
    b->all.words += b->found.count;
    return PH_OK;
}

uint64_t ph__record_next_id(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static ph_status make_room(builder *b)
{
    size_t head = args_room(sizeof(ph_record)), nodes = args_room(b->count * sizeof(ph__record_node));
    size_t words = args_room(b->all.words * sizeof(ph_word)),
           edges = args_room(2 * b->all.edges * sizeof(size_t)),
           kinds = args_room(b->all.edges * sizeof(ph_edge_kind));
    size_t bytes = head + nodes + words + edges + kinds + b->all.args + b->all.names;
    char *block = ph__calloc(1, bytes);
    if (block == NULL)
        return ph__fail_host_memory(b->call, "the record of the captured graph");
    b->record = (ph_record *)(void *)block;
    b->record->id = ph__record_next_id();
    b->record->bytes = bytes;
    b->record->nodes = (ph__record_node *)(void *)(block + head);
    b->words = (ph_word *)(void *)(block + head + nodes);
    b->edges = (size_t *)(void *)(block + head + nodes + words);
    b->kinds = (ph_edge_kind *)(void *)(block + head + nodes + words + edges);
    b->args = block + head + nodes + words + edges + kinds;
    b->names = b->args + b->all.args;
    return PH_OK;
}

/* ---- the second walk ---- */
static const char *keep_name(builder *b, const char *name)
{
    size_t bytes = strlen(name) + 1;
    char *kept = b->names;
    memcpy(kept, name, bytes);
    b->names += bytes;
    return kept;
}

static const char *write_name(builder *b, const ph__word_slot *slot)
{
    char *name = b->names;
    b->names += ph__word_name(name, SIZE_MAX, slot) + 1;
    return name;
}

/* Those of this node are the next ones: both walks are in the record's order. */
static void take_found(builder *b, ph__record_node *node)
{
    size_t count = b->found_counts[node->info.index];
    if (count)
        memcpy(b->words, b->next_found, count * sizeof *b->words);
    b->next_found += count;
    b->words += count;
    node->info.word_count = ph__words_of_sparse(node->info.args_size);
}

static ph_status fill_kernel(builder *b, ph__record_node *node, const ph__drv_node_info *info,
                             ph_kernel *kernel)
{
    node->kernel = kernel;
    memcpy(node->info.grid, info->launch.grid, sizeof node->info.grid);
    memcpy(node->info.block, info->launch.block, sizeof node->info.block);
    node->info.shared_bytes = info->launch.shared_bytes;
    node->info.args_size = info->args_size;
    if (info->args_size) {
        node->info.args = b->args;
        memcpy(b->args, info->launch.args, info->args_size);
        b->args += args_room(info->args_size);
    }
    if (ph__words_are_sparse(kernel != NULL, info->args_size)) {
        take_found(b, node);
        return PH_OK;
    }
    PH_TRY(lay_out(b, kernel, info->args_size));
    for (size_t i = 0; i < b->layout.slots.count; i++) {
        const struct word_place *place = &b->layout.slots.at[i];
        ph__word_read(b->words, b->device, &b->own, &place->slot, node->info.args);
        b->words->name = place->lasting ? place->lasting : write_name(b, &place->slot);
        b->words++;
    }
    return PH_OK;
}

static void fill_copy(builder *b, ph__record_node *node, const ph__drv_memcpy *copy)
{
    node->info.dst = copy->dst;
    node->info.src = copy->src;
    node->info.bytes = copy->bytes;
    ph__word_address(b->words++, b->device, &b->own, "dst", 0, copy->dst);
    ph__word_address(b->words++, b->device, &b->own, "src", sizeof(void *), copy->src);
}

static void fill_fill(builder *b, ph__record_node *node, const ph__drv_memset *fill)
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

static void fill_ops(builder *b, const ph__drv_node_info *info)
{
    for (size_t i = 0; i < info->op_count; i++)
        ph__word_address(b->words++, b->device, &b->own, op_name(i), i * sizeof(void *),
                         info->op_addresses[i]);
}

static void fill_dependencies(builder *b, ph__record_node *node, const ph__drv_node_info *info,
                              size_t created_at)
{
    size_t count = info->dependency_count;
    node->dependencies = b->edges;
    node->dependency_kinds = b->kinds;
    node->info.dependency_count = count;
    for (size_t d = 0; d < count; d++) {
        size_t value = b->index[place_of(b, created_at, info->dependencies[d])], at = d;
        for (; at > 0 && b->edges[at - 1] > value; at--) {
            b->edges[at] = b->edges[at - 1];
            b->kinds[at] = b->kinds[at - 1];
        }
        b->edges[at] = value;
        b->kinds[at] = info->dependency_kinds ? info->dependency_kinds[d] : PH_EDGE_FULL;
    }
    b->edges += count;
    b->kinds += count;
}

static void fill_memory(ph__record_node *node, const ph__drv_node_info *info)
{
    node->info.dst = info->memory;
    node->info.bytes = info->kind == PH_NODE_MEM_ALLOC ? info->memory_bytes : 0;
}

static ph_status fill_body(builder *b, ph__record_node *node, ph__drv_graph *graph)
{
    ph__own_memory own = {b->own.nested, b->own.nested, b->own.nodes, NULL};
    ph_record *body;
    PH_TRY(ph__record_build(&body, b->device, graph, &own, b->call));
    node->info.body = body;
    return PH_OK;
}

static ph_status fill_node(builder *b, size_t i)
{
    ph__record_node *node = &b->record->nodes[i];
    size_t at = b->order[i];
    const ph__drv_node_info *info = &b->infos[at];
    const char *name = lasting_name(b, at);
    node->handle = b->created[at];
    node->created = at;
    node->info.index = i;
    node->info.kind = info->kind;
    node->form = info->form;
    node->info.name = name ? name : keep_name(b, info->kernel_name);
    node->kept = b->words;
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
    node->kept_count = (size_t)(b->words - node->kept);
    if (!node->info.word_count)
        node->info.word_count = node->kept_count;
    b->record->node_count = i + 1;
    return info->kind == PH_NODE_GRAPH && info->body ? fill_body(b, node, info->body) : PH_OK;
}

/* Walking the nodes in order makes each list of dependents ascending. */
static void fill_dependents(builder *b)
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
    record->edge_count = b->all.edges;
}

static ph_status build(builder *b)
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
    PH_TRY(map_nodes(b));
    PH_TRY(sort_nodes(b));
    for (size_t i = 0; i < b->count; i++)
        PH_TRY(count_node(b, i));
    PH_TRY(find_sparse(b));
    PH_TRY(make_room(b));
    b->next_found = b->found.at;
    for (size_t i = 0; i < b->count; i++)
        PH_TRY(fill_node(b, i));
    fill_dependents(b);
    return PH_OK;
}

ph_status ph__record_build(ph_record **out, ph_device *device, ph__drv_graph *graph,
                           const ph__own_memory *own, const char *call)
{
    builder b = {.device = device, .own = *own, .call = call};
    ph__lookups seen = {0};
    ph__memory_hull(&seen.lowest, &seen.highest, device);
    b.given.outer = own->nodes;
    b.own.nodes = &b.given;
    b.own.seen = &seen;
    *out = NULL;
    int result = device->driver->graph_nodes(&b.created, &b.count, graph);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_GRAPH_GET_NODES,
                               "%s: the captured graph could not be read back", call);
    ph_status status = build(&b);
    ph__map_free(&b.position);
    ph__vec_free(&b.given.spans);
    ph__vec_free(&b.found);
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

void ph__record_put_args(ph_record *record, size_t node, const ph_device *device, const ph__own_memory *own,
                         const void *args)
{
    ph__record_node *to = node < record->node_count ? &record->nodes[node] : NULL;
    if (to == NULL || to->info.args == NULL)
        return;
    memcpy((void *)(uintptr_t)to->info.args, args, to->info.args_size);
    ph__words words = {to->kernel, to->info.args_size, 0, 0};
    ph__word_slot slot;
    for (size_t i = 0; i < to->kept_count && ph__words_next(&words, &slot); i++) {
        ph_word *word = (ph_word *)(uintptr_t)&to->kept[i];
        const char *name = word->name;
        *word = (ph_word){.name = name};
        ph__word_read(word, device, own, &slot, to->info.args);
    }
}

void ph__record_free(ph_record *record)
{
    if (record == NULL)
        return;
    for (size_t i = 0; !record->made && i < record->node_count; i++)
        ph__record_free((ph_record *)(uintptr_t)record->nodes[i].info.body);
    ph__record_drop_annotations(record);
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
