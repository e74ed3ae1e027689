/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/decode.c: reading nodes back that this library did not submit itself: what
 * vendor libraries and other code captured, imported graphs, the bodies of child graphs. */
#include "driver/cuda/nodes/decode.h"
#include "base/alloc.h"
#include "driver/cuda/load/core.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/load/unload.h"
#include "driver/cuda/nodes/graph.h"
#include "driver/cuda/nodes/transfers.h"
#include <string.h>

/* Vendor libraries launch the same kernels again and again: each is asked about once in a graph. */
static int find_layout(const ph__cuda_layout **out, ph__drv_graph *graph,
                       const ph__cu_kernel_params *params)
{
    ph__cuda_layout *layout;
    uint64_t key = params->function ? (uintptr_t)params->function : (uintptr_t)params->kernel;
    if (key == 0)
        return PH__R_INVALID_VALUE;
    ph__spin_lock(&graph->device->cache_lock);
    *out = ph__map_get(&graph->layouts, key);
    ph__spin_unlock(&graph->device->cache_lock);
    if (*out)
        return PH__R_OK;
    int result = ph__cuda_layout_acquire(&layout, graph->device, params);
    if (result != PH__R_OK)
        return result;
    ph__spin_lock(&graph->device->cache_lock);
    ph__cuda_layout *met = ph__map_get(&graph->layouts, key); /* by another thread meanwhile */
    bool put = !met && ph__map_put(&graph->layouts, key, layout);
    ph__spin_unlock(&graph->device->cache_lock);
    *out = met ? met : layout;
    if (!put)
        ph__cuda_layout_release(layout);
    return put || met ? PH__R_OK : PH__R_OUT_OF_MEMORY;
}

/* The markers stand in any order, each before its value. */
static void parse_extra(const void **buffer, size_t *bytes, void *const *extra)
{
    *buffer = NULL;
    *bytes = 0;
    for (; *extra != PH__CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == PH__CU_LAUNCH_PARAM_BUFFER_POINTER)
            *buffer = extra[1];
        else if (extra[0] == PH__CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
            *bytes = *(const size_t *)extra[1];
        else
            return;
    }
}

/* No padding between the parameters, or behind them: mostly it is one struct. */
static bool is_whole(const ph__cuda_layout *layout, size_t bytes)
{
    size_t covered = 0;
    for (size_t i = 0; i < layout->count; i++)
        covered += layout->at[i].bytes;
    return covered == bytes;
}

/* All parameters, each at its offset, in a buffer of the kernel's size: the struct's padding at
 * the end is zeros. */
static int gather_arguments(ph__drv_node_info *info, ph__drv_graph *graph,
                            const ph__cu_kernel_params *params, const ph__cuda_layout *layout)
{
    const void *buffer = NULL;
    size_t bytes = 0;
    if (params->extra)
        parse_extra(&buffer, &bytes, params->extra);
    info->args_size = layout->bytes;
    if (info->kernel && info->kernel->args_size > info->args_size)
        info->args_size = info->kernel->args_size;
    if (info->args_size == 0)
        return PH__R_OK;
    unsigned char *args = ph__cuda_graph_room(graph, info->args_size);
    if (!args)
        return PH__R_OUT_OF_MEMORY;
    if (buffer || !params->params || !is_whole(layout, info->args_size))
        memset(args, 0, info->args_size);
    if (buffer)
        memcpy(args, buffer, bytes < info->args_size ? bytes : info->args_size);
    for (size_t i = 0; !buffer && params->params && i < layout->count; i++)
        memcpy(args + layout->at[i].offset, params->params[i], layout->at[i].bytes);
    info->launch.args = args;
    return PH__R_OK;
}

/* The arguments of the core's fill kernel are what a memset node would say. */
static void as_fill(ph__drv_node *out)
{
    ph__cuda_fill_args args;
    memcpy(&args, out->info.launch.args, sizeof args);
    out->is_core_fill = true;
    out->info = (ph__drv_node_info){.kind = PH_NODE_MEMSET,
                                    .fill = {.dst = (void *)(uintptr_t)args.dst,
                                             .value = args.value,
                                             .value_size = args.value_size,
                                             .count = args.count}};
}

static int decode_kernel(ph__drv_node *out, ph__drv_graph *graph)
{
    ph__cu_kernel_params params = {0};
    const ph__cuda_layout *layout = NULL;
    int result = ph__cu.GraphKernelNodeGetParams(out->handle, &params);
    if (result == PH__R_OK)
        result = find_layout(&layout, graph, &params);
    if (result != PH__R_OK)
        return result;
    ph__drv_node_info *info = &out->info;
    out->layout = layout;
    info->kernel = ph__cuda_kernel_of(graph->device, params.function, graph->kernels);
    info->code = params.function ? (const void *)params.function : (const void *)params.kernel;
    info->kernel_name = info->kernel ? info->kernel->name : layout->name;
    memcpy(info->launch.grid, params.grid, sizeof info->launch.grid);
    memcpy(info->launch.block, params.block, sizeof info->launch.block);
    info->launch.shared_bytes = params.shared_bytes;
    result = gather_arguments(info, graph, &params, layout);
    if (result == PH__R_OK && params.function && info->args_size >= sizeof(ph__cuda_fill_args) &&
        params.function == ph__cuda_core_fill_if_loaded(graph->device))
        as_fill(out);
    return result;
}

/* ---- the other kinds ---- */

static int decode_host(ph__drv_node *out)
{
    ph__cu_host_params params = {0};
    int result = ph__cu.GraphHostNodeGetParams(out->handle, &params);
    if (result == PH__R_OK)
        out->info.host = (ph__drv_host){params.fn, params.user};
    return result;
}

static int decode_child(ph__drv_node *out, ph__drv_graph *graph)
{
    ph__cu_graph handle = NULL;
    int result = ph__cu.GraphChildGraphNodeGetGraph(out->handle, &handle);
    if (result != PH__R_OK)
        return result;
    ph__drv_graph *body = ph__cuda_graph_create(graph->device, handle, false);
    if (!body)
        return PH__R_OUT_OF_MEMORY;
    body->kernels = graph->kernels;
    ph__spin_lock(&graph->device->cache_lock);
    bool kept = ph__vec_push(&graph->bodies, body);
    ph__spin_unlock(&graph->device->cache_lock);
    if (!kept) {
        ph__cuda_graph_destroy(body);
        return PH__R_OUT_OF_MEMORY;
    }
    out->info.body = body;
    return PH__R_OK;
}

static int decode_alloc(ph__drv_node *out)
{
    ph__cu_alloc_params params = {0};
    int result = ph__cu.GraphMemAllocNodeGetParams(out->handle, &params);
    out->info.memory = (void *)(uintptr_t)params.address;
    out->info.memory_bytes = params.bytes;
    return result;
}

static int decode_free(ph__drv_node *out)
{
    ph__cu_pointer address = 0;
    int result = ph__cu.GraphMemFreeNodeGetParams(out->handle, &address);
    out->info.memory = (void *)(uintptr_t)address;
    return result;
}

/* Waits for, and writes to, single words; barriers and what later drivers may add have no
 * address that is known here. */
static int decode_mem_ops(ph__drv_node *out, ph__drv_graph *graph)
{
    ph__cu_mem_ops params = {0};
    if (!ph__cu.GraphBatchMemOpNodeGetParams)
        return PH__R_OK;
    int result = ph__cu.GraphBatchMemOpNodeGetParams(out->handle, &params);
    if (result != PH__R_OK || params.count == 0)
        return result;
    void **addresses = ph__cuda_graph_room(graph, params.count * sizeof *addresses);
    if (!addresses)
        return PH__R_OUT_OF_MEMORY;
    for (unsigned i = 0; i < params.count; i++) {
        const ph__cu_mem_op *op = &params.ops[i];
        bool has = op->operation == PH__CU_MEM_OP_WAIT_VALUE_32 ||
                   op->operation == PH__CU_MEM_OP_WRITE_VALUE_32 ||
                   op->operation == PH__CU_MEM_OP_WAIT_VALUE_64 ||
                   op->operation == PH__CU_MEM_OP_WRITE_VALUE_64;
        addresses[i] = has ? (void *)(uintptr_t)op->at.address : NULL;
    }
    out->info.op_addresses = addresses;
    out->info.op_count = params.count;
    return PH__R_OK;
}

static int read_kind(ph_node_kind *out, ph__cu_node handle)
{
    int type = 0;
    int result = ph__cu.GraphNodeGetType(handle, &type);
    *out = (ph_node_kind)type;
    return result;
}

/* Of the kinds that are not here nothing but the kind can be read. */
static int decode_kind(ph__drv_node *out, ph__drv_graph *graph)
{
    int result = out->has_kind ? PH__R_OK : read_kind(&out->info.kind, out->handle);
    if (result != PH__R_OK)
        return result;
    switch (out->info.kind) {
    case PH_NODE_KERNEL:
        return decode_kernel(out, graph);
    case PH_NODE_MEMCPY:
        return ph__cuda_decode_copy(out);
    case PH_NODE_MEMSET:
        return ph__cuda_decode_fill(out);
    case PH_NODE_HOST:
        return decode_host(out);
    case PH_NODE_GRAPH:
        return decode_child(out, graph);
    case PH_NODE_MEM_ALLOC:
        return decode_alloc(out);
    case PH_NODE_MEM_FREE:
        return decode_free(out);
    case PH_NODE_BATCH_MEM_OP:
        return decode_mem_ops(out, graph);
    default:
        return PH__R_OK;
    }
}

static void keep_links(ph__drv_node_info *to, const ph__drv_node_info *from)
{
    to->dependencies = from->dependencies;
    to->dependency_kinds = from->dependency_kinds;
    to->dependency_count = from->dependency_count;
    to->launch.programmatic = from->launch.programmatic;
}

/* Another thread may have read or submitted the node meanwhile: what came first stays. links: NULL
 * where they were not read. */
static int publish_node(ph__drv_node *node, ph__drv_node *read, const ph__cuda_links *links)
{
    int result = PH__R_OK;
    ph__spin_lock(&node->graph->device->cache_lock);
    if (!links)
        keep_links(&read->info, &node->info);
    if (links && !ph__cuda_graph_link_locked(node->graph, &read->info, links)) {
        result = PH__R_OUT_OF_MEMORY;
    } else if (!atomic_load_explicit(&node->decoded, memory_order_relaxed)) {
        node->info = read->info;
        node->has_kind = true;
        node->has_links = links != NULL;
        node->is_core_fill = read->is_core_fill;
        node->is_plain_copy = read->is_plain_copy;
        node->is_rows_fill = read->is_rows_fill;
        node->src_type = read->src_type;
        node->dst_type = read->dst_type;
        node->layout = read->layout;
        if (read->info.kind == PH_NODE_KERNEL)
            atomic_store_explicit(&node->graph->has_launches, true, memory_order_relaxed);
        atomic_store_explicit(&node->decoded, true, memory_order_release);
    }
    ph__spin_unlock(&node->graph->device->cache_lock);
    return result;
}

static int decode_node_now(ph__drv_node *node)
{
    ph__drv_node read = {.handle = node->handle, .has_kind = node->has_kind};
    read.info.kind = node->info.kind;
    ph__cuda_links links;
    int result = decode_kind(&read, node->graph);
    if (result != PH__R_OK || !node->graph->capturing)
        return result == PH__R_OK ? publish_node(node, &read, NULL) : result;
    result = ph__cuda_links_read(&links, node->handle);
    if (result != PH__R_OK)
        return result;
    result = publish_node(node, &read, &links);
    ph__cuda_links_free(&links);
    return result;
}

static int decode_kind_now(ph__drv_node *node)
{
    ph_node_kind kind;
    int result = read_kind(&kind, node->handle);
    if (result != PH__R_OK)
        return result;
    ph__spin_lock(&node->graph->device->cache_lock);
    if (!node->has_kind && !atomic_load_explicit(&node->decoded, memory_order_relaxed)) {
        node->info.kind = kind;
        node->has_kind = true;
    }
    ph__spin_unlock(&node->graph->device->cache_lock);
    return PH__R_OK;
}

/* The calls here need no context, by NVIDIA's lists of what each call may answer; a driver
 * that thinks otherwise gets one. */
static int with_context(int (*read)(ph__drv_node *), ph__drv_node *node)
{
    ph__cuda_scope scope;
    int result = read(node);
    if (result != PH__R_INVALID_CONTEXT)
        return result;
    result = ph__cuda_enter(&scope, node->graph->device);
    if (result == PH__R_OK) {
        result = read(node);
        ph__cuda_leave(&scope);
    }
    return result;
}

int ph__cuda_decode(ph__drv_node *node)
{
    return atomic_load_explicit(&node->decoded, memory_order_acquire)
               ? PH__R_OK
               : with_context(decode_node_now, node);
}

int ph__cuda_decode_handle_type(int *out, const ph__drv_graph *graph, ph__cu_node handle)
{
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, graph->device);
    if (result == PH__R_OK) {
        result = ph__cu.GraphNodeGetType(handle, out);
        ph__cuda_leave(&scope);
    }
    return result;
}

int ph__cuda_decode_kind(ph__drv_node *node)
{
    return node->has_kind || atomic_load_explicit(&node->decoded, memory_order_acquire)
               ? PH__R_OK
               : with_context(decode_kind_now, node);
}
