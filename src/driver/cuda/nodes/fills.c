/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/fills.c: small memset nodes of other code become launches of the library's
 * fill kernel, as this library's own small fills are from the start. A memset node of this size
 * costs the host time at every launch of its graph, and leaves the GPU idle behind it
 * (docs/guide/cuda.md). */
#include "driver/cuda/nodes/fills.h"
#include "base/alloc.h"
#include "driver/cuda/load/core.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/decode.h"
#include "driver/cuda/nodes/graph.h"
#include "driver/cuda/nodes/handles.h"
#include "driver/cuda/nodes/positions.h"

/* The nodes that depend on one, and how. Freed by the caller. */
typedef struct dependents {
    size_t count;
    ph__cu_node *nodes;
    ph__cu_edge *edges;
} dependents;

/* Asking for the number alone is refused where an edge is not plain: the room grows until some is
 * left. */
static int read_dependents(dependents *out, ph__cu_node node)
{
    for (size_t room = 8;; room *= 4) {
        char *block = ph__calloc(room, sizeof *out->nodes + sizeof *out->edges);
        if (!block)
            return PH__R_OUT_OF_MEMORY;
        out->nodes = (ph__cu_node *)(void *)block;
        out->edges = (ph__cu_edge *)(void *)(out->nodes + room);
        out->count = room;
        int result = ph__cu.GraphNodeGetDependentNodes(node, out->nodes, out->edges, &out->count);
        if (result == PH__R_OK && out->count < room)
            return PH__R_OK;
        ph__free(block);
        if (result != PH__R_OK)
            return result;
    }
}

static bool all_plain(const ph__cu_edge *edges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (edges[i].from_port || edges[i].to_port || edges[i].type)
            return false;
    return true;
}

/* Device memory of this GPU, all of it in one allocation, which a kernel in the device's context
 * reaches: that of another context is not reached, that of no context (virtual memory) is. */
static bool is_reached(const ph__drv_device *device, const ph__drv_memset *fill)
{
    int attributes[] = {PH__CU_POINTER_MEMORY_TYPE,      PH__CU_POINTER_IS_MANAGED,
                        PH__CU_POINTER_DEVICE_ORDINAL,   PH__CU_POINTER_CONTEXT,
                        PH__CU_POINTER_RANGE_START_ADDR, PH__CU_POINTER_RANGE_SIZE};
    unsigned type = 0, managed = 0;
    int ordinal = -1;
    ph__cu_context context = NULL;
    ph__cu_pointer base = 0, dst = (uintptr_t)fill->dst;
    size_t size = 0, bytes = fill->count * fill->value_size;
    void *values[] = {&type, &managed, &ordinal, &context, &base, &size};
    if (ph__cu.PointerGetAttributes(sizeof attributes / sizeof attributes[0], attributes, values,
                                    dst))
        return false;
    return type == PH__CU_MEMORY_DEVICE && !managed && ordinal == device->number &&
           (!context || context == device->context) && dst >= base && dst - base <= size &&
           bytes <= size - (dst - base);
}

static bool is_small_fill(const ph__drv_node *node)
{
    const ph__drv_memset *fill = &node->info.fill;
    return node->info.kind == PH_NODE_MEMSET && !node->is_core_fill && !node->is_rows_fill &&
           (fill->value_size == 1 || fill->value_size == 4) && fill->count > 0 &&
           fill->count <= PH__CUDA_FILL_LIMIT / fill->value_size;
}

static int add_fill(ph__cu_node *out, ph__cu_graph graph, ph__cu_function function,
                    const ph__drv_memset *fill, const ph__cuda_links *links)
{
    ph__cuda_fill_args args = {(uintptr_t)fill->dst, fill->value, fill->value_size, fill->count};
    size_t bytes = sizeof args;
    void *extra[] = {PH__CU_LAUNCH_PARAM_BUFFER_POINTER, &args, PH__CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, PH__CU_LAUNCH_PARAM_END};
    ph__cu_kernel_params params = {.function = function, .extra = extra};
    ph__cuda_fill_dimensions(params.grid, params.block, &args);
    return ph__cu.GraphAddKernelNode(out, graph, links->count ? links->nodes : NULL, links->count,
                                     &params);
}

/* The memset goes first: the driver destroys no node of a graph that takes memory, and then all is
 * as it was. What fails after that leaves a graph that must not be used. *out stays NULL where the
 * memset stays. */
static int replace_with_edges(ph__cu_node *out, ph__cu_graph graph, ph__cu_node memset_node,
                              ph__cu_function function, const ph__drv_memset *fill,
                              const ph__cuda_links *before, const dependents *after)
{
    ph__cu_node kernel;
    if (!all_plain(before->edges, before->count) || !all_plain(after->edges, after->count) ||
        ph__cu.GraphDestroyNode(memset_node) != PH__R_OK)
        return PH__R_OK;
    int result = add_fill(&kernel, graph, function, fill, before);
    for (size_t i = 0; i < after->count && result == PH__R_OK; i++)
        result = ph__cu.GraphAddDependencies(graph, &kernel, &after->nodes[i], NULL, 1);
    if (result == PH__R_OK)
        *out = kernel;
    return result;
}

static int replace_fill(ph__cu_node *out, ph__cu_graph graph, ph__cu_node memset_node,
                        ph__cu_function function, const ph__drv_memset *fill)
{
    ph__cuda_links before;
    dependents after;
    *out = NULL;
    int result = ph__cuda_links_read(&before, memset_node);
    if (result != PH__R_OK)
        return result;
    result = read_dependents(&after, memset_node);
    if (result == PH__R_OK) {
        result = replace_with_edges(out, graph, memset_node, function, fill, &before, &after);
        ph__free(after.nodes);
    }
    ph__cuda_links_free(&before);
    return result;
}

/* The node keeps its place in the list and all that is known of it; only its handle is another. */
static bool rename_locked(ph__drv_graph *graph, ph__drv_node *node, ph__cu_node handle)
{
    bool mapped =
        !graph->unmapped && ph__map_remove(&graph->by_handle, (uintptr_t)node->handle) != NULL;
    node->handle = graph->handles[node->index] = handle;
    node->is_core_fill = node->is_lowered = true;
    return !mapped || ph__map_put(&graph->by_handle, (uintptr_t)handle, node);
}

static int lower_node(ph__drv_graph *graph, size_t i, ph__cu_function function)
{
    ph__cu_node handle = NULL;
    ph__spin_lock(&graph->device->cache_lock);
    ph__drv_node *node = ph__cuda_handles_node_locked(graph, i);
    ph__spin_unlock(&graph->device->cache_lock);
    int result = node ? ph__cuda_decode(node) : PH__R_OUT_OF_MEMORY;
    if (result != PH__R_OK || !is_small_fill(node) || !is_reached(graph->device, &node->info.fill))
        return result;
    result = replace_fill(&handle, graph->handle, node->handle, function, &node->info.fill);
    if (result != PH__R_OK || !handle)
        return result;
    ph__spin_lock(&graph->device->cache_lock);
    bool renamed = rename_locked(graph, node, handle);
    ph__spin_unlock(&graph->device->cache_lock);
    return renamed ? PH__R_OK : PH__R_OUT_OF_MEMORY;
}

/* Kernel nodes are made in the context that is current. */
int ph__cuda_graph_lower(ph__drv_graph *graph)
{
    ph__cuda_scope scope;
    ph__cu_function function = ph__cuda_core_fill_if_loaded(graph->device);
    bool known = graph->submitted || graph->kinds;
    if (!function || !graph->read || (known && !graph->copies))
        return PH__R_OK;
    int result = ph__cuda_positions_resolve(graph);
    if (result != PH__R_OK)
        return result;
    result = ph__cuda_enter(&scope, graph->device);
    if (result != PH__R_OK)
        return result;
    for (size_t i = 0; i < graph->handle_count && result == PH__R_OK; i++)
        if (ph__cuda_handles_kind(graph, i) == PH_NODE_MEMSET)
            result = lower_node(graph, i, function);
    ph__cuda_leave(&scope);
    return result;
}

/* ---- updates ---- */

bool ph__cuda_fill_accepts_clone(const ph__drv_node *mine, const ph__drv_node *theirs)
{
    return mine->is_core_fill && is_small_fill(theirs) &&
           is_reached(theirs->graph->device, &theirs->info.fill);
}

static int lower_in_clone(ph__cu_graph clone, const ph__drv_graph *graph, const ph__drv_graph *like,
                          ph__cu_function function)
{
    int result = PH__R_OK;
    for (size_t i = 0; i < graph->nodes.count && result == PH__R_OK; i++) {
        const ph__drv_node *node = graph->nodes.at[i];
        ph__cu_node twin, kernel = NULL;
        if (node->info.kind != PH_NODE_MEMSET || node->is_core_fill ||
            !like->nodes.at[i]->is_core_fill)
            continue;
        result = ph__cu.GraphNodeFindInClone(&twin, node->handle, clone);
        if (result == PH__R_OK)
            result = replace_fill(&kernel, clone, twin, function, &node->info.fill);
        if (result == PH__R_OK && !kernel)
            result = PH__R_NOT_SUPPORTED;
    }
    return result;
}

int ph__cuda_graph_lowered_clone(ph__cu_graph *out, const ph__drv_graph *graph,
                                 const ph__drv_graph *like)
{
    bool differ = false;
    ph__cu_function function = ph__cuda_core_fill_if_loaded(graph->device);
    *out = NULL;
    if (!atomic_load_explicit(&graph->listed, memory_order_acquire)) /* no fills (exec/shape.h) */
        return PH__R_OK;
    for (size_t i = 0; i < graph->nodes.count && !differ; i++)
        differ = like->nodes.at[i]->is_core_fill && !graph->nodes.at[i]->is_core_fill;
    if (!differ)
        return PH__R_OK;
    ph__cu_graph clone = NULL;
    int result = function ? ph__cu.GraphClone(&clone, graph->handle) : PH__R_NOT_SUPPORTED;
    if (result == PH__R_OK)
        result = lower_in_clone(clone, graph, like, function);
    if (result == PH__R_OK)
        *out = clone;
    else if (clone)
        (void)ph__cu.GraphDestroy(clone);
    return result;
}
