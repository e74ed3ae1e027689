/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/update.c: giving an executable the parameters of another graph of the same
 * shape, or saying why that is not possible. */
#include "base/alloc.h"
#include "driver/cuda/exec/compare.h"
#include "driver/cuda/exec/exec.h"
#include "driver/cuda/exec/kept.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/fills.h"
#include "driver/cuda/nodes/list.h"
#include <string.h>

/* ---- what the driver refuses ---- */

/* CUgraphExecUpdateResult. */
static ph_update_reason reason_of(int result)
{
    switch (result) {
    case 2:
        return PH_UPDATE_TOPOLOGY;
    case 3:
        return PH_UPDATE_NODE_TYPE;
    case 4:
    case 7:
        return PH_UPDATE_FUNCTION;
    case 5:
    case 8:
        return PH_UPDATE_PARAMETERS;
    default:
        return PH_UPDATE_UNSUPPORTED;
    }
}

static const char *memory_word(int type)
{
    static const char *const words[] = {[PH__CU_MEMORY_HOST] = "host memory",
                                        [PH__CU_MEMORY_DEVICE] = "device memory",
                                        [PH__CU_MEMORY_ARRAY] = "an array",
                                        [PH__CU_MEMORY_UNIFIED] = "an address"};
    return type > 0 && (size_t)type < sizeof words / sizeof words[0] ? words[type] : "memory";
}

static void explain_copy(ph__drv_update *out, ph_update_reason reason, const ph__cuda_pair *pair)
{
    const ph__drv_node *mine = pair->mine, *theirs = pair->theirs;
    if (mine->src_type != theirs->src_type || mine->dst_type != theirs->dst_type)
        ph__cuda_mismatch(
            out, reason, pair,
            "node %zu (memcpy) copies %s to %s, the new capture's copies %s to %s: the kind "
            "of a copy "
            "cannot change",
            mine->index, memory_word(mine->src_type), memory_word(mine->dst_type),
            memory_word(theirs->src_type), memory_word(theirs->dst_type));
    else
        ph__cuda_mismatch(
            out, reason, pair,
            "node %zu (memcpy) cannot take the new capture's copy of %zu bytes from %p to %p "
            "in place "
            "of %zu bytes "
            "from %p to %p: the kind of memory on each side cannot change",
            mine->index, theirs->info.copy.bytes, theirs->info.copy.src, theirs->info.copy.dst,
            mine->info.copy.bytes, mine->info.copy.src, mine->info.copy.dst);
}

static void explain_pair(ph__drv_update *out, int result, const ph__cuda_pair *pair)
{
    ph_update_reason reason = reason_of(result);
    char mine[128], theirs[128];
    ph__cuda_describe_node(mine, pair->mine);
    ph__cuda_describe_node(theirs, pair->theirs);
    if (reason == PH_UPDATE_TOPOLOGY)
        ph__cuda_mismatch(out, reason, pair, "%s stands in another order than in the new capture",
                          mine);
    else if (reason == PH_UPDATE_NODE_TYPE)
        ph__cuda_mismatch(out, reason, pair, "%s is of another type in the new capture", mine);
    else if (reason == PH_UPDATE_FUNCTION)
        ph__cuda_mismatch(
            out, reason, pair,
            "%s cannot become %s: the two functions differ in what a node cannot change", mine,
            theirs);
    else if (result == 8)
        ph__cuda_mismatch(out, reason, pair,
                          "%s has other launch attributes in the new capture, which cannot change",
                          mine);
    else if (reason == PH_UPDATE_PARAMETERS && pair->mine->info.kind == PH_NODE_MEMCPY)
        explain_copy(out, reason, pair);
    else if (reason == PH_UPDATE_PARAMETERS)
        ph__cuda_mismatch(out, reason, pair,
                          "%s has parameters in the new capture that it cannot take", mine);
    else
        ph__cuda_mismatch(out, reason, pair,
                          "%s cannot be updated: the driver does not support it for such nodes",
                          mine);
}

static ph__drv_node *node_of(const ph__drv_graph *graph, ph__cu_node handle)
{
    for (size_t i = 0; handle && i < graph->nodes.count; i++)
        if (graph->nodes.at[i]->handle == handle)
            return graph->nodes.at[i];
    return NULL;
}

/* The driver blames a node of the new graph, or none. */
static void explain_refusal(ph__drv_update *out, const ph__drv_exec *exec, ph__drv_graph *from,
                            const ph__cu_update_result *why)
{
    (void)ph__cuda_graph_list(from); /* without memory for that no node is named */
    ph__drv_node *theirs = node_of(from, why->node);
    ph__drv_node *mine = theirs ? NULL : node_of(exec->graph, why->node);
    if (theirs)
        mine = exec->graph->nodes.at[theirs->index];
    else if (mine && mine->index < from->nodes.count)
        theirs = from->nodes.at[mine->index];
    if (mine && theirs)
        explain_pair(out, why->result, &(ph__cuda_pair){mine, theirs, NULL});
    else
        ph__cuda_mismatch(out, reason_of(why->result), NULL,
                          "the driver refuses it and names no node (result %d)", why->result);
}

/* ---- the update ---- */

static bool is_read(const ph__drv_graph *graph)
{
    bool read = atomic_load_explicit(&graph->listed, memory_order_acquire);
    for (size_t i = 0; i < graph->nodes.count && read; i++)
        read = atomic_load_explicit(&graph->nodes.at[i]->decoded, memory_order_acquire);
    return read;
}

static int update_at_driver(ph__drv_exec *exec, ph__drv_graph *from, ph__drv_update *out)
{
    ph__cu_update_result why = {0};
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, exec->device);
    if (result != PH__R_OK)
        return result;
    ph__cu_graph clone;
    result = ph__cuda_graph_lowered_clone(&clone, from, exec->graph);
    if (result == PH__R_OK)
        result = ph__cu.GraphExecUpdate(exec->handle, clone ? clone : from->handle, &why);
    if (clone)
        (void)ph__cu.GraphDestroy(clone);
    ph__cuda_leave(&scope);
    if (result == PH__R_UPDATE_FAILURE)
        explain_refusal(out, exec, from, &why);
    return result;
}

/* The kernels that the nodes run from now on: known, or to be asked of the graph. */
static void keep_kernels(ph__drv_exec *exec, ph__drv_graph *from, bool read)
{
    exec->updated = read ? NULL : from;
    if (!read) {
        ph__free(exec->kernels);
        exec->kernels = NULL;
    }
    for (size_t i = 0; exec->kernels && i < exec->graph->nodes.count; i++)
        exec->kernels[i] = from->nodes.at[i]->info.kernel;
}

int ph__cuda_exec_update(ph__drv_exec *exec, ph__drv_graph *from, ph__drv_update *out)
{
    if (!exec || !from)
        return PH__R_INVALID_VALUE;
    ph__drv_update answer = {.reason = PH_UPDATE_OK};
    int result = PH__R_OK;
    if (from->device != exec->device) {
        ph__cuda_mismatch(&answer, PH_UPDATE_UNSUPPORTED, NULL,
                          "the new capture is of another device");
        result = PH__R_UPDATE_FAILURE;
    }
    if (result == PH__R_OK)
        result = ph__cuda_compare_graphs(exec->graph, from, NULL, &answer);
    if (result == PH__R_OK)
        result = ph__cuda_exec_upload_first(exec);
    bool read = result == PH__R_OK && is_read(from);
    if (read && !ph__cuda_exec_reserve_kernels(exec, from))
        result = PH__R_OUT_OF_MEMORY;
    ph__cuda_layout **layouts = NULL;
    if (read && result == PH__R_OK && !ph__cuda_layouts_copy(&layouts, exec->graph, from))
        result = PH__R_OUT_OF_MEMORY;
    if (result == PH__R_OK)
        result = update_at_driver(exec, from, &answer);
    if (result == PH__R_OK) {
        keep_kernels(exec, from, read);
        ph__cuda_exec_drop_layouts(exec);
        exec->layouts = layouts;
    } else {
        ph__cuda_layouts_free(layouts, exec->graph->nodes.count);
    }
    if (result == PH__R_UPDATE_FAILURE)
        ph__driver_set_reason("%s", answer.message);
    if (out && (result == PH__R_OK || result == PH__R_UPDATE_FAILURE))
        *out = answer;
    return result;
}
