/* SPDX-License-Identifier: MIT */
/* driver/host/capture/graph.c: template graphs: nodes in order of creation, and the sets that
 * streams and events keep of them. */
#include "driver/host/capture/graph.h"
#include "base/checked.h"
#include "driver/host/stream/entries.h"
#include <string.h>

/* Sets grow at their end, in place where they are the block's newest, so that whoever copied a
 * shorter one keeps what it had; a block that became too small stays until the graph goes. */
struct ph__host_set_block {
    struct ph__host_set_block *next;
    size_t used, capacity;
    ph__drv_node *at[];
};

enum {
    FIRST_CAPACITY = 8
};

/* A node and behind it its parameters, aligned for any type. */
typedef struct node_storage {
    ph__host_node node;
    _Alignas(max_align_t) unsigned char args[];
} node_storage;

static bool set_reserve(ph__host_graph *graph, ph__host_node_set *set, size_t extra)
{
    struct ph__host_set_block *block = set->block;
    if (block && block->used == set->count && block->capacity - block->used >= extra)
        return true;
    size_t needed, capacity, bytes;
    if (!ph__add(set->count, extra, &needed) || !ph__mul(needed, 2, &capacity))
        return false;
    if (capacity < FIRST_CAPACITY)
        capacity = FIRST_CAPACITY;
    if (!ph__mul(capacity, sizeof block->at[0], &bytes) || !ph__add(bytes, sizeof *block, &bytes))
        return false;
    block = ph__alloc(bytes);
    if (!block)
        return false;
    if (set->count > 0)
        memcpy(block->at, set->at, set->count * sizeof block->at[0]);
    graph->bytes += bytes;
    block->used = set->count;
    block->capacity = capacity;
    block->next = graph->blocks;
    graph->blocks = block;
    set->block = block;
    set->at = block->at;
    return true;
}

static void set_push(ph__host_node_set *set, ph__drv_node *node)
{
    set->block->at[set->block->used++] = node;
    set->count++;
}

ph__host_node_set ph__host_set_of(ph__host_node *node)
{
    return (ph__host_node_set){.at = &node->self, .count = 1};
}

bool ph__host_set_translate(ph__host_graph *graph, ph__host_node_set *out,
                            ph__drv_node *const *from, size_t count)
{
    *out = (ph__host_node_set){0};
    if (count == 1)
        *out = ph__host_set_of(ph__host_node_of(graph->nodes.at[ph__host_node_of(from[0])->index]));
    if (count <= 1)
        return true;
    if (!set_reserve(graph, out, count))
        return false;
    for (size_t i = 0; i < count; i++)
        set_push(out, graph->nodes.at[ph__host_node_of(from[i])->index]);
    return true;
}

/* The nodes remember where they were put last, from the first of these on. */
static void note_places(const ph__host_node_set *set, size_t first)
{
    for (size_t i = first; i < set->count; i++) {
        ph__host_node *node = ph__host_node_of(set->at[i]);
        node->put_into = set->block;
        node->put_at = i;
    }
}

/* Whether the node is in the set, from where it was put last: a block has it once. *unsure: that
 * was elsewhere. */
static bool find_in_set(const ph__host_node_set *set, const ph__host_node *node, bool *unsure)
{
    if (set->block == NULL)
        return set->count == 1 && set->at[0] == node->self;
    *unsure = *unsure || (node->put_into != NULL && node->put_into != set->block);
    return node->put_into == set->block && node->put_at < set->count &&
           set->at[node->put_at] == node->self;
}

/* Marks those of the other set that are in the set. Where all are known, nothing goes through
 * the set: wide joins unite one set with many small ones. */
static uint64_t mark_common(ph__host_graph *graph, const ph__host_node_set *set,
                            const ph__host_node_set *other)
{
    uint64_t mark = ++graph->last_mark;
    bool unsure = false;
    for (size_t i = 0; i < other->count; i++) {
        ph__host_node *node = ph__host_node_of(other->at[i]);
        if (find_in_set(set, node, &unsure))
            node->mark = mark;
    }
    for (size_t i = 0; unsure && i < set->count; i++)
        ph__host_node_of(set->at[i])->mark = mark;
    return mark;
}

bool ph__host_set_unite(ph__host_graph *graph, ph__host_node_set *set,
                        const ph__host_node_set *other)
{
    uint64_t mark = mark_common(graph, set, other);
    size_t fresh = 0;
    for (size_t i = 0; i < other->count; i++)
        fresh += ph__host_node_of(other->at[i])->mark != mark;
    if (fresh == 0)
        return true;
    ph__host_node_set grown = *set;
    if (!set_reserve(graph, &grown, fresh))
        return false;
    size_t moved = grown.block == set->block ? set->count : 0;
    for (size_t i = 0; i < other->count; i++) {
        if (ph__host_node_of(other->at[i])->mark != mark)
            set_push(&grown, other->at[i]);
    }
    note_places(&grown, moved);
    *set = grown;
    return true;
}

/* A node's index is above those of its dependencies, so one sweep downwards reaches everything. */
uint64_t ph__host_graph_mark_ancestors(ph__host_graph *graph, const ph__host_node_set *set)
{
    uint64_t mark = ++graph->last_mark;
    for (size_t i = 0; i < set->count; i++)
        ph__host_node_of(set->at[i])->mark = mark;
    for (size_t i = graph->nodes.count; i-- > 0;) {
        const ph__host_node *node = ph__host_node_of(graph->nodes.at[i]);
        if (node->mark != mark)
            continue;
        for (size_t k = 0; k < node->dependency_count; k++)
            ph__host_node_of(node->dependencies[k])->mark = mark;
    }
    return mark;
}

ph__host_graph *ph__host_graph_create(ph__host_device *device)
{
    ph__host_graph *graph = ph__calloc(1, sizeof *graph);
    if (!graph)
        return NULL;
    graph->device = device;
    graph->bytes = sizeof *graph;
    atomic_fetch_add(&device->live_handles, 1);
    return graph;
}

bool ph__host_graph_is_capturing(ph__host_graph *graph)
{
    pthread_mutex_lock(&graph->device->capture_lock);
    bool capturing = graph->capturing;
    pthread_mutex_unlock(&graph->device->capture_lock);
    return capturing;
}

static ph__host_event *event_of(const ph__host_work *work)
{
    if (work->kind != PH_NODE_EVENT_RECORD && work->kind != PH_NODE_EVENT_WAIT)
        return NULL;
    return ((const ph__host_event_args *)work->args)->event;
}

static void release_node(ph__host_node *node)
{
    ph__host_event *event = event_of(&node->work);
    if (event)
        ph__host_event_release(event);
    if (node->work.kernel)
        ph__host_kernel_release(node->work.kernel);
    ph__host_graph_destroy((ph__drv_graph *)node->work.body);
    ph__free(node);
}

ph__host_node *ph__host_graph_add(ph__host_graph *graph, const ph__host_work *work,
                                  const ph__host_node_set *dependencies)
{
    size_t bytes;
    if (!set_reserve(graph, &graph->nodes, 1) ||
        !ph__add(sizeof(node_storage), work->args_size, &bytes))
        return NULL;
    node_storage *storage = ph__alloc(bytes);
    if (!storage)
        return NULL;
    ph__host_node *node = &storage->node;
    /* cannot overflow: there is more than a byte to each */
    size_t before = work->body ? 1 + work->body->slot_count : 0;
    *node = (ph__host_node){.graph = graph,
                            .self = (ph__drv_node *)node,
                            .index = graph->nodes.count,
                            .slot = graph->slot_count + before,
                            .work = *work,
                            .dependencies = dependencies->at,
                            .dependency_count = dependencies->count};
    if (work->args_size > 0)
        memcpy(storage->args, work->args, work->args_size);
    node->work.args = storage->args;
    ph__host_event *event = event_of(&node->work);
    if (event)
        ph__host_event_retain(event);
    if (work->kernel)
        ph__host_kernel_retain(work->kernel);
    for (size_t i = 0; i < dependencies->count; i++)
        ph__host_node_of(dependencies->at[i])->has_dependents = true;
    graph->slot_count = node->slot + 1;
    graph->bytes += bytes + (work->body ? work->body->bytes : 0);
    set_push(&graph->nodes, node->self);
    return node;
}

void ph__host_graph_destroy(ph__drv_graph *handle)
{
    ph__host_graph *graph = ph__host_graph_of(handle);
    if (!graph)
        return;
    for (size_t i = graph->nodes.count; i-- > 0;)
        release_node(ph__host_node_of(graph->nodes.at[i]));
    while (graph->blocks) {
        struct ph__host_set_block *block = graph->blocks;
        graph->blocks = block->next;
        ph__free(block);
    }
    atomic_fetch_sub(&graph->device->live_handles, 1);
    ph__free(graph);
}

/* Also of an open capture: what was returned stays true while other threads add more. */
int ph__host_graph_nodes(ph__drv_node *const **nodes, size_t *count, ph__drv_graph *handle)
{
    ph__host_graph *graph = ph__host_graph_of(handle);
    if (!graph)
        return PH__R_INVALID_VALUE;
    pthread_mutex_lock(&graph->device->capture_lock);
    *nodes = graph->nodes.at;
    *count = graph->nodes.count;
    pthread_mutex_unlock(&graph->device->capture_lock);
    return PH__R_OK;
}

int ph__host_graph_count(size_t *count, ph__drv_graph *handle)
{
    ph__drv_node *const *nodes;
    return ph__host_graph_nodes(&nodes, count, handle);
}

static ph__drv_copied copied_of(const ph__host_work *work)
{
    ph__drv_copied copied = {.found = true, .kind = work->kind};
    ph__drv_memcpy copy;
    ph__drv_memset fill;
    if (work->kind == PH_NODE_GRAPH) {
        copied.body = (ph__drv_graph *)work->body;
    } else if (work->kind == PH_NODE_MEMSET) {
        memcpy(&fill, work->args, sizeof fill);
        copied.dst = fill.dst;
    } else {
        memcpy(&copy, work->args, sizeof copy);
        copied.dst = copy.dst;
        copied.src = copy.src;
    }
    return copied;
}

int ph__host_graph_next_copy(ph__drv_copied *out, size_t *at, ph__drv_graph *handle)
{
    const ph__host_graph *graph = ph__host_graph_of(handle);
    if (!graph)
        return PH__R_INVALID_VALUE;
    *out = (ph__drv_copied){.found = false};
    while (!out->found && *at < graph->nodes.count) {
        const ph__host_work *work = &ph__host_node_of(graph->nodes.at[(*at)++])->work;
        if (work->kind == PH_NODE_MEMCPY || work->kind == PH_NODE_MEMSET ||
            work->kind == PH_NODE_GRAPH)
            *out = copied_of(work);
    }
    return PH__R_OK;
}

bool ph__host_graph_is_own(ph__drv_graph *graph)
{
    return graph != NULL;
}

/* No node has a cheaper form here. */
int ph__host_graph_lower(ph__drv_graph *graph)
{
    return graph ? PH__R_OK : PH__R_INVALID_VALUE;
}

/* A graph of this driver can be read, and not be edited. */
int ph__host_graph_reread(ph__drv_graph **out, ph__drv_graph *graph)
{
    (void)out;
    return graph ? PH__R_NOT_SUPPORTED : PH__R_INVALID_VALUE;
}

size_t ph__host_graph_host_bytes(ph__drv_graph *handle)
{
    ph__host_graph *graph = ph__host_graph_of(handle);
    if (!graph)
        return 0;
    pthread_mutex_lock(&graph->device->capture_lock);
    size_t bytes = graph->bytes;
    pthread_mutex_unlock(&graph->device->capture_lock);
    return bytes;
}

int ph__host_node_kind(ph_node_kind *out, ph__drv_node *handle)
{
    const ph__host_node *node = ph__host_node_of(handle);
    if (!node)
        return PH__R_INVALID_VALUE;
    *out = node->work.kind;
    return PH__R_OK;
}

bool ph__host_graph_has_launches(ph__drv_graph *graph)
{
    return graph != NULL;
}

bool ph__host_node_launch(ph__drv_launch *out, const ph__drv_node *handle)
{
    const ph__host_node *node = ph__host_node_of((ph__drv_node *)(uintptr_t)handle);
    if (!node || node->work.kind != PH_NODE_KERNEL)
        return false;
    const ph__host_work *work = &node->work;
    *out = (ph__drv_launch){.shared_bytes = work->shared_bytes, .args = work->args};
    memcpy(out->grid, work->grid, sizeof work->grid);
    memcpy(out->block, work->block, sizeof work->block);
    return true;
}

int ph__host_node_info(ph__drv_node_info *out, ph__drv_node *handle)
{
    const ph__host_node *node = ph__host_node_of(handle);
    if (!node)
        return PH__R_INVALID_VALUE;
    const ph__host_work *work = &node->work;
    *out = (ph__drv_node_info){.kind = work->kind,
                               .dependencies = node->dependencies,
                               .dependency_count = node->dependency_count};
    if (work->kind == PH_NODE_KERNEL) {
        out->kernel = (ph__drv_kernel *)work->kernel;
        out->kernel_name = work->kernel->name;
        memcpy(out->launch.grid, work->grid, sizeof work->grid);
        memcpy(out->launch.block, work->block, sizeof work->block);
        out->launch.shared_bytes = work->shared_bytes;
        out->launch.args = work->args;
        out->args_size = work->args_size;
    } else if (work->kind == PH_NODE_MEMCPY) {
        static const char *const forms[2][2] = {{"host to host", "host to device"},
                                                {"device to host", "device to device"}};
        memcpy(&out->copy, work->args, sizeof out->copy);
        out->form = forms[work->src_on_device][work->dst_on_device];
    } else if (work->kind == PH_NODE_MEMSET) {
        memcpy(&out->fill, work->args, sizeof out->fill);
    } else if (work->kind == PH_NODE_HOST) {
        memcpy(&out->host, work->args, sizeof out->host);
    } else {
        out->event = (ph__drv_event *)event_of(work);
        out->body = (ph__drv_graph *)work->body;
    }
    return PH__R_OK;
}
