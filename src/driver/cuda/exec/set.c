/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/set.c: changing single nodes of an executable. The driver's calls crash or
 * fail without a current context. */
#include "base/checked.h"
#include "driver/cuda/exec/exec.h"
#include "driver/cuda/load/core.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/load/kernel.h"
#include "driver/cuda/nodes/decode.h"
#include "driver/cuda/nodes/list.h"
#include <string.h>

/* The template's node, decoded, if it is one of this executable and of that kind: it is about to be
 * changed. */
static inline int check_node_kind(ph__drv_exec *exec, ph__drv_node *node, ph_node_kind kind,
                                  const void *value)
{
    if (!exec || !node || !value || node->graph != exec->graph)
        return PH__R_INVALID_VALUE;
    int result = PH__R_OK;
    if (!atomic_load_explicit(&node->decoded, memory_order_acquire))
        result = ph__cuda_decode(node);
    if (result == PH__R_OK && node->info.kind != kind)
        result = PH__R_INVALID_VALUE;
    return result == PH__R_OK && exec->deferred ? ph__cuda_exec_upload_first(exec) : result;
}

#define IN_CONTEXT(result, exec, call)                                                             \
    do {                                                                                           \
        ph__cuda_scope scope_;                                                                     \
        (result) = ph__cuda_enter(&scope_, (exec)->device);                                        \
        if ((result) == PH__R_OK) {                                                                \
            (result) = (call);                                                                     \
            ph__cuda_leave(&scope_);                                                               \
        }                                                                                          \
    } while (0)

/* ---- kernels ---- */

/* The node of the last update's graph that says what this one runs, or itself; decoded. */
static inline int find_source(const ph__drv_node **out, const ph__drv_exec *exec,
                              const ph__drv_node *node)
{
    *out = node;
    if (!exec->updated)
        return PH__R_OK;
    int result = ph__cuda_graph_list(exec->updated);
    if (result != PH__R_OK)
        return result;
    ph__drv_node *theirs = exec->updated->nodes.at[node->index];
    *out = theirs ? theirs : node;
    return theirs && !atomic_load_explicit(&theirs->decoded, memory_order_acquire)
               ? ph__cuda_decode(theirs)
               : PH__R_OK;
}

/* The kernel that the node runs: since an update, perhaps not the captured one. NULL: a function
 * that was not loaded here. */
static ph__drv_kernel *kernel_of(const ph__drv_exec *exec, const ph__drv_node *source)
{
    return exec->kernels ? exec->kernels[source->index] : source->info.kernel;
}

static int set_kernel(const ph__drv_exec *exec, const ph__drv_node *node,
                      ph__cu_kernel_params *params, const void *args, size_t bytes)
{
    void *extra[] = {PH__CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)args,
                     PH__CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, PH__CU_LAUNCH_PARAM_END};
    int result;
    params->extra = bytes > 0 ? extra : NULL;
    IN_CONTEXT(
        result, exec,
        ph__cu.GraphExecKernelNodeSetParams(exec->handle, ph__cuda_exec_node(exec, node), params));
    return result;
}

/* cuGraphExecKernelNodeSetParams takes a list of addresses a little faster than one buffer. */
static inline int set_listed(const ph__drv_exec *exec, const ph__drv_node *node,
                             const ph__drv_kernel *kernel, ph__cu_kernel_params *params,
                             const void *args)
{
    void *list[PH__CUDA_LISTED_PARAMS];
    if (kernel->param_count > PH__CUDA_LISTED_PARAMS)
        return set_kernel(exec, node, params, args, kernel->args_end);
    for (size_t i = 0; i < kernel->param_count; i++)
        list[i] = (char *)(uintptr_t)args + kernel->offsets[i];
    params->params = list;
    int result;
    IN_CONTEXT(
        result, exec,
        ph__cu.GraphExecKernelNodeSetParams(exec->handle, ph__cuda_exec_node(exec, node), params));
    return result;
}

/* Of a node that is checked, and runs the kernel. */
static inline __attribute__((always_inline)) int set_own(const ph__drv_exec *exec,
                                                         const ph__drv_node *node,
                                                         ph__drv_kernel *kernel,
                                                         const ph__drv_launch *launch)
{
    int result = PH__R_OK;
    if (kernel->args_end > 0 && !launch->args)
        return PH__R_INVALID_VALUE;
    if (launch->shared_bytes > atomic_load_explicit(&kernel->shared_set, memory_order_relaxed))
        result = ph__cuda_kernel_prepare(kernel, launch->shared_bytes);
    if (result != PH__R_OK)
        return result;
    ph__cu_kernel_params params = {.function = kernel->function,
                                   .shared_bytes = (unsigned)launch->shared_bytes};
    memcpy(params.grid, launch->grid, sizeof params.grid);
    memcpy(params.block, launch->block, sizeof params.block);
    return set_listed(exec, node, kernel, &params, launch->args);
}

int ph__cuda_exec_set_kernel(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_launch *launch)
{
    const ph__drv_node *source;
    int result = check_node_kind(exec, node, PH_NODE_KERNEL, launch);
    if (result == PH__R_OK)
        result = find_source(&source, exec, node);
    if (result != PH__R_OK)
        return result;
    ph__drv_kernel *kernel = kernel_of(exec, source);
    if (kernel)
        return set_own(exec, node, kernel, launch);
    ph__driver_set_reason("the node's kernel was not loaded by this library, so that its "
                          "parameters are not known");
    return PH__R_INVALID_VALUE;
}

/* The layout of the kernel that a node runs, where it was not loaded here. */
static const ph__cuda_layout *layout_of(const ph__drv_exec *exec, const ph__drv_node *source)
{
    return exec->layouts && exec->layouts[source->index] ? exec->layouts[source->index]
                                                         : source->layout;
}

static int set_foreign(const ph__drv_exec *exec, const ph__drv_node *node,
                       const ph__cuda_layout *layout, ph__cu_kernel_params *params,
                       const void *args)
{
    enum {
        LISTED = 64
    };
    void *list[LISTED];
    if (layout->count > LISTED)
        return set_kernel(exec, node, params, args, layout->bytes);
    for (size_t i = 0; i < layout->count; i++)
        list[i] = (char *)(uintptr_t)args + layout->at[i].offset;
    params->params = list;
    int result;
    IN_CONTEXT(
        result, exec,
        ph__cu.GraphExecKernelNodeSetParams(exec->handle, ph__cuda_exec_node(exec, node), params));
    return result;
}

int ph__cuda_exec_set_args(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_launch *launch,
                           size_t args_size)
{
    const ph__drv_node *source;
    int result = check_node_kind(exec, node, PH_NODE_KERNEL, launch);
    if (result == PH__R_OK)
        result = find_source(&source, exec, node);
    if (result != PH__R_OK)
        return result;
    ph__drv_kernel *kernel = kernel_of(exec, source);
    if (kernel)
        return args_size < kernel->args_end ? PH__R_INVALID_VALUE
                                            : set_own(exec, node, kernel, launch);
    const ph__cuda_layout *layout = layout_of(exec, source);
    if (!layout || args_size < layout->bytes || (layout->bytes > 0 && !launch->args))
        return PH__R_INVALID_VALUE;
    ph__cu_kernel_params params = {.function = layout->function,
                                   .kernel = layout->kernel,
                                   .context = layout->context,
                                   .shared_bytes = (unsigned)launch->shared_bytes};
    memcpy(params.grid, launch->grid, sizeof params.grid);
    memcpy(params.block, launch->block, sizeof params.block);
    return set_foreign(exec, node, layout, &params, launch->args);
}

/* ---- copies ---- */

static int set_copy(const ph__drv_exec *exec, const ph__drv_node *node, const ph__drv_memcpy *copy)
{
    ph__cu_copy_params params = {.src_type = node->src_type,
                                 .dst_type = node->dst_type,
                                 .width_bytes = copy->bytes,
                                 .height = 1,
                                 .depth = 1};
    if (node->src_type == PH__CU_MEMORY_HOST)
        params.src_host = copy->src;
    else
        params.src_device = (uintptr_t)copy->src;
    if (node->dst_type == PH__CU_MEMORY_HOST)
        params.dst_host = copy->dst;
    else
        params.dst_device = (uintptr_t)copy->dst;
    int result;
    IN_CONTEXT(result, exec,
               ph__cu.GraphExecMemcpyNodeSetParams(exec->handle, ph__cuda_exec_node(exec, node),
                                                   &params, exec->device->context));
    return result;
}

int ph__cuda_exec_set_copy(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_memcpy *copy)
{
    int result = check_node_kind(exec, node, PH_NODE_MEMCPY, copy);
    if (result != PH__R_OK)
        return result;
    if (!node->is_plain_copy) {
        ph__driver_set_reason(
            "the node copies rows, planes or an array: only contiguous copies can be changed");
        return PH__R_INVALID_VALUE;
    }
    return copy->dst && copy->src ? set_copy(exec, node, copy) : PH__R_INVALID_VALUE;
}

/* ---- fills ---- */

static int set_core_fill(const ph__drv_exec *exec, const ph__drv_node *node,
                         const ph__drv_memset *fill)
{
    ph__cuda_fill_args args = {(uintptr_t)fill->dst, fill->value, fill->value_size, fill->count};
    ph__cu_kernel_params params = {0};
    int result = ph__cuda_core_fill(&params.function, exec->device);
    if (result != PH__R_OK)
        return result;
    ph__cuda_fill_dimensions(params.grid, params.block, &args);
    return set_kernel(exec, node, &params, &args, sizeof args);
}

static int set_fill(const ph__drv_exec *exec, const ph__drv_node *node, const ph__drv_memset *fill)
{
    ph__cu_fill_params params = {.dst = (uintptr_t)fill->dst,
                                 .value = fill->value,
                                 .element_bytes = fill->value_size,
                                 .width = fill->count,
                                 .height = 1};
    int result;
    IN_CONTEXT(result, exec,
               ph__cu.GraphExecMemsetNodeSetParams(exec->handle, ph__cuda_exec_node(exec, node),
                                                   &params, exec->device->context));
    return result;
}

int ph__cuda_exec_set_fill(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_memset *what)
{
    int result = check_node_kind(exec, node, PH_NODE_MEMSET, what);
    if (result != PH__R_OK)
        return result;
    if (node->is_rows_fill) {
        ph__driver_set_reason(
            "the node fills rows with gaps between them: only contiguous fills can be changed");
        return PH__R_INVALID_VALUE;
    }
    if (what->value_size != node->info.fill.value_size) {
        ph__driver_set_reason("the node fills %u-byte elements, and that cannot change to %u",
                              (unsigned)node->info.fill.value_size, (unsigned)what->value_size);
        return PH__R_INVALID_VALUE;
    }
    size_t bytes;
    ph__drv_memset fill = *what;
    if (!ph__mul(fill.count, fill.value_size, &bytes) || bytes == 0 || !fill.dst ||
        (uintptr_t)fill.dst % fill.value_size != 0)
        return PH__R_INVALID_VALUE;
    if (fill.value_size == 1)
        fill.value &= 0xff;
    return node->is_core_fill ? set_core_fill(exec, node, &fill) : set_fill(exec, node, &fill);
}

/* ---- host functions ---- */

int ph__cuda_exec_set_host(ph__drv_exec *exec, ph__drv_node *node, const ph__drv_host *host)
{
    int result = check_node_kind(exec, node, PH_NODE_HOST, host);
    if (result != PH__R_OK)
        return result;
    if (!host->fn)
        return PH__R_INVALID_VALUE;
    ph__cu_host_params params = {host->fn, host->user};
    IN_CONTEXT(
        result, exec,
        ph__cu.GraphExecHostNodeSetParams(exec->handle, ph__cuda_exec_node(exec, node), &params));
    return result;
}

/* ---- on and off ---- */

static int check_switch(const ph__drv_exec *exec, ph__drv_node *node)
{
    if (!exec || !node || node->graph != exec->graph)
        return PH__R_INVALID_VALUE;
    int result = PH__R_OK;
    if (!atomic_load_explicit(&node->decoded, memory_order_acquire))
        result = ph__cuda_decode(node);
    return result == PH__R_OK && node->info.kind > PH_NODE_MEMSET ? PH__R_INVALID_VALUE : result;
}

int ph__cuda_exec_set_enabled(ph__drv_exec *exec, ph__drv_node *node, bool enabled)
{
    int result = check_switch(exec, node);
    if (result == PH__R_OK)
        result = ph__cuda_exec_upload_first(exec);
    if (result == PH__R_OK)
        IN_CONTEXT(
            result, exec,
            ph__cu.GraphNodeSetEnabled(exec->handle, ph__cuda_exec_node(exec, node), enabled));
    return result;
}

int ph__cuda_exec_get_enabled(bool *out, ph__drv_exec *exec, ph__drv_node *node)
{
    unsigned enabled = 0;
    int result = out ? check_switch(exec, node) : PH__R_INVALID_VALUE;
    if (result == PH__R_OK)
        IN_CONTEXT(
            result, exec,
            ph__cu.GraphNodeGetEnabled(exec->handle, ph__cuda_exec_node(exec, node), &enabled));
    if (result == PH__R_OK)
        *out = enabled != 0;
    return result;
}
