/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/graph.c: node caches of CUDA's graphs: nodes by handle, in blocks of
 * memory that go with the graph. */
#include "driver/cuda/nodes/graph.h"
#include "base/alloc.h"
#include "driver/cuda/load/entries.h"
#include <string.h>

/* Blocks grow with the graph: a graph of a few nodes takes a page, one of thousands few blocks. */
struct ph__cuda_block {
    struct ph__cuda_block *next;
    size_t used, bytes;
    _Alignas(max_align_t) unsigned char at[];
};

enum {
    FIRST_BLOCK = 4096 - sizeof(struct ph__cuda_block) - 64,
    LAST_BLOCK = 16 * FIRST_BLOCK
};

ph__drv_graph *ph__cuda_graph_create(ph__drv_device *device, ph__cu_graph handle, bool owned)
{
    ph__drv_graph *graph = ph__calloc(1, sizeof *graph);
    if (!graph)
        return NULL;
    graph->device = device;
    graph->handle = handle;
    graph->owned = owned;
    return graph;
}

void ph__cuda_graph_destroy(ph__drv_graph *graph)
{
    if (!graph)
        return;
    for (size_t i = 0; i < graph->bodies.count; i++)
        ph__cuda_graph_destroy(graph->bodies.at[i]);
    ph__vec_free(&graph->bodies);
    ph__vec_free(&graph->nodes);
    ph__vec_free(&graph->submissions);
    ph__vec_free(&graph->positions);
    ph__vec_free(&graph->frontiers);
    ph__free(graph->handles);
    ph__free(graph->kinds);
    ph__map_free(&graph->by_handle);
    ph__cuda_layouts_release(&graph->layouts);
    while (graph->blocks) {
        struct ph__cuda_block *next = graph->blocks->next;
        ph__free(graph->blocks);
        graph->blocks = next;
    }
    if (graph->owned)
        (void)ph__cu.GraphDestroy(graph->handle);
    ph__free(graph);
}

int ph__cuda_graph_import(ph__drv_graph **out, ph__drv_device *device, void *native)
{
    if (!native)
        return PH__R_INVALID_VALUE;
    ph__drv_graph *graph = ph__cuda_graph_create(device, native, true);
    if (!graph)
        return PH__R_OUT_OF_MEMORY;
    *out = graph;
    return PH__R_OK;
}

void ph__cuda_graph_disown(ph__drv_graph *graph)
{
    graph->owned = false;
    ph__cuda_graph_destroy(graph);
}

int ph__cuda_graph_reread(ph__drv_graph **out, ph__drv_graph *graph)
{
    *out = ph__cuda_graph_create(graph->device, graph->handle, false);
    return *out ? PH__R_OK : PH__R_OUT_OF_MEMORY;
}

void ph__cuda_graph_hand_over(ph__drv_graph *to, ph__drv_graph *from)
{
    to->owned = from->owned;
    from->owned = false;
}

const void *ph__cuda_node_native(const ph__drv_node *node)
{
    return node->handle;
}

void *ph__cuda_graph_native(ph__drv_graph *graph)
{
    return graph ? graph->handle : NULL;
}

static size_t bytes_locked(const ph__drv_graph *graph)
{
    size_t bytes = sizeof *graph + graph->block_bytes +
                   graph->nodes.capacity * sizeof *graph->nodes.at +
                   graph->handle_count * sizeof *graph->handles +
                   graph->bodies.capacity * sizeof *graph->bodies.at;
    if (graph->by_handle.slots)
        bytes += (graph->by_handle.mask + 1) * sizeof *graph->by_handle.slots;
    if (graph->layouts.slots)
        bytes += (graph->layouts.mask + 1) * sizeof *graph->layouts.slots;
    for (size_t i = 0; i < graph->bodies.count; i++)
        bytes += bytes_locked(graph->bodies.at[i]);
    return bytes;
}

size_t ph__cuda_graph_host_bytes(ph__drv_graph *graph)
{
    if (!graph)
        return 0;
    ph__spin_lock(&graph->device->cache_lock);
    size_t bytes = bytes_locked(graph);
    ph__spin_unlock(&graph->device->cache_lock);
    return bytes;
}

/* ---- memory ---- */

static bool add_block(ph__drv_graph *graph, size_t at_least)
{
    size_t bytes = graph->blocks ? graph->blocks->bytes * 2 : FIRST_BLOCK;
    if (bytes > LAST_BLOCK)
        bytes = LAST_BLOCK;
    if (bytes < at_least)
        bytes = at_least;
    struct ph__cuda_block *block = ph__alloc(sizeof *block + bytes);
    if (!block)
        return false;
    block->next = graph->blocks;
    block->used = 0;
    block->bytes = bytes;
    graph->blocks = block;
    graph->block_bytes += sizeof *block + bytes;
    return true;
}

void *ph__cuda_graph_room_locked(ph__drv_graph *graph, size_t bytes)
{
    size_t rounded = (bytes + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
    if (rounded < bytes)
        return NULL;
    if ((!graph->blocks || graph->blocks->bytes - graph->blocks->used < rounded) &&
        !add_block(graph, rounded))
        return NULL;
    void *room = graph->blocks->at + graph->blocks->used;
    graph->blocks->used += rounded;
    return room;
}

void *ph__cuda_graph_room(ph__drv_graph *graph, size_t bytes)
{
    ph__spin_lock(&graph->device->cache_lock);
    void *room = ph__cuda_graph_room_locked(graph, bytes);
    ph__spin_unlock(&graph->device->cache_lock);
    return room;
}

/* ---- nodes ---- */

/* Nodes that were listed before anybody asked for one by its handle are put into the map now;
 * where there is no memory for that they are searched. */
static bool map_listed_locked(ph__drv_graph *graph)
{
    if (!ph__map_reserve(&graph->by_handle, graph->nodes.count))
        return false;
    for (size_t i = 0; i < graph->nodes.count; i++)
        (void)ph__map_put(&graph->by_handle, (uintptr_t)graph->nodes.at[i]->handle,
                          graph->nodes.at[i]);
    graph->unmapped = false;
    return true;
}

ph__drv_node *ph__cuda_graph_find_locked(ph__drv_graph *graph, ph__cu_node handle)
{
    if (!graph->unmapped || map_listed_locked(graph))
        return ph__map_get(&graph->by_handle, (uintptr_t)handle);
    for (size_t i = 0; i < graph->nodes.count; i++)
        if (graph->nodes.at[i]->handle == handle)
            return graph->nodes.at[i];
    return NULL;
}

ph__drv_node *ph__cuda_graph_node_locked(ph__drv_graph *graph, ph__cu_node handle)
{
    if (graph->last && graph->last->handle == handle)
        return graph->last;
    ph__drv_node *node = ph__cuda_graph_find_locked(graph, handle);
    if (!node) {
        node = ph__cuda_graph_room_locked(graph, sizeof *node);
        if (!node || !ph__map_put(&graph->by_handle, (uintptr_t)handle, node))
            return NULL;
        *node = (ph__drv_node){.graph = graph, .self = node, .handle = handle};
    }
    graph->last = node;
    return node;
}

/* Of a graph that is listed no other nodes are made, and it is mostly that behind the last one, or
 * the last one again. */
static ph__drv_node *find_linked_locked(ph__drv_graph *graph, ph__cu_node handle)
{
    if (!atomic_load_explicit(&graph->listed, memory_order_relaxed))
        return ph__cuda_graph_node_locked(graph, handle);
    size_t last = graph->last ? graph->last->index : 0;
    for (size_t i = last; i < graph->nodes.count && i <= last + 1; i++)
        if (graph->nodes.at[i]->handle == handle)
            return graph->last = graph->nodes.at[i];
    ph__drv_node *node = ph__cuda_graph_find_locked(graph, handle);
    graph->last = node ? node : graph->last;
    return node;
}

bool ph__cuda_graph_link_locked(ph__drv_graph *graph, ph__drv_node_info *info,
                                const ph__cuda_links *links)
{
    info->dependencies = NULL;
    info->dependency_kinds = NULL;
    info->dependency_count = links->count;
    bool programmatic = false;
    for (size_t i = 0; links->edges && i < links->count; i++)
        programmatic = programmatic || links->edges[i].type == PH__CU_DEPENDENCY_TYPE_PROGRAMMATIC;
    info->launch.programmatic = programmatic;
    if (links->count == 0)
        return true;
    if (programmatic) {
        ph_edge_kind *kinds = ph__cuda_graph_room_locked(graph, links->count * sizeof *kinds);
        if (!kinds)
            return false;
        for (size_t i = 0; i < links->count; i++)
            kinds[i] = links->edges[i].type == PH__CU_DEPENDENCY_TYPE_PROGRAMMATIC
                           ? PH_EDGE_PROGRAMMATIC
                           : PH_EDGE_FULL;
        info->dependency_kinds = kinds;
    }
    if (links->count == 1) {
        const ph__drv_node *node = find_linked_locked(graph, links->nodes[0]);
        info->dependencies = node ? &node->self : NULL;
        return node != NULL;
    }
    ph__drv_node **nodes = ph__cuda_graph_room_locked(graph, links->count * sizeof *nodes);
    for (size_t i = 0; nodes && i < links->count; i++)
        if (!(nodes[i] = find_linked_locked(graph, links->nodes[i])))
            return false;
    info->dependencies = nodes;
    return nodes != NULL;
}

/* ---- what a node depends on ---- */

static bool links_reserve(ph__cuda_links *links, size_t count, bool edges)
{
    links->more = NULL;
    links->nodes = links->few;
    links->edges = edges ? links->few_edges : NULL;
    if (count <= sizeof links->few / sizeof links->few[0])
        return true;
    links->more = ph__calloc(count, sizeof *links->nodes + sizeof *links->edges);
    if (!links->more)
        return false;
    links->nodes = links->more;
    if (edges)
        links->edges = (ph__cu_edge *)(links->nodes + count);
    return true;
}

void ph__cuda_links_free(ph__cuda_links *links)
{
    if (links->more)
        ph__free(links->more);
    links->more = NULL;
}

/* Asking for the number alone is refused where an edge is not plain; so the room is doubled
 * until some stays empty. */
int ph__cuda_links_read(ph__cuda_links *links, ph__cu_node node)
{
    size_t room = sizeof links->few / sizeof links->few[0];
    for (;;) {
        if (!links_reserve(links, room, true))
            return PH__R_OUT_OF_MEMORY;
        links->count = room;
        int result =
            ph__cu.GraphNodeGetDependencies(node, links->nodes, links->edges, &links->count);
        if (result != PH__R_OK) {
            ph__cuda_links_free(links);
            return result;
        }
        if (links->count < room)
            return PH__R_OK;
        ph__cuda_links_free(links);
        room *= 4;
    }
}

/* ---- the list ---- */
