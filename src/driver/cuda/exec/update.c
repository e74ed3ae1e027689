/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/update.c: giving an executable the parameters of another graph of the same
 * shape, or saying why that is not possible. Nodes are paired in order of creation, as the
 * layers above do it, before the driver is asked: what it might pair otherwise is refused. */
#include "base/alloc.h"
#include "base/line.h"
#include "driver/cuda/exec/exec.h"
#include "driver/cuda/exec/kept.h"
#include "driver/cuda/load/core.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/decode.h"
#include "driver/cuda/nodes/fills.h"
#include <string.h>

static const char *kind_word(ph_node_kind kind)
{
    static const char *const words[] = {
        [PH_NODE_KERNEL] = "kernel",
        [PH_NODE_MEMCPY] = "memcpy",
        [PH_NODE_MEMSET] = "memset",
        [PH_NODE_HOST] = "host function",
        [PH_NODE_GRAPH] = "graph",
        [PH_NODE_EMPTY] = "empty node",
        [PH_NODE_EVENT_WAIT] = "event wait",
        [PH_NODE_EVENT_RECORD] = "event record",
        [PH_NODE_SEMAPHORE_SIGNAL] = "semaphore signal",
        [PH_NODE_SEMAPHORE_WAIT] = "semaphore wait",
        [PH_NODE_MEM_ALLOC] = "memory allocation",
        [PH_NODE_MEM_FREE] = "memory free",
        [PH_NODE_BATCH_MEM_OP] = "batch of memory operations",
        [PH_NODE_CONDITIONAL] = "conditional",
    };
    return (size_t)kind < sizeof words / sizeof words[0] ? words[kind]
                                                         : "node of a kind that is not known here";
}

static void describe_node(char out[128], const ph__drv_node *node)
{
    if (node->info.kind == PH_NODE_KERNEL && node->info.kernel_name)
        ph__line_format(out, 128, "node %zu (kernel %s)", node->index, node->info.kernel_name);
    else
        ph__line_format(out, 128, "node %zu (%s)", node->index, kind_word(node->info.kind));
}

/* The template's node and the new graph's of the same index. outer: the pair of child graphs
 * that they are in, of the graphs themselves. */
typedef struct node_pair {
    ph__drv_node *mine, *theirs;
    const struct node_pair *outer;
} node_pair;

PH_PRINTF(4, 5)
static bool mismatch(ph__drv_update *out, ph_update_reason reason, const node_pair *pair,
                     const char *format, ...)
{
    char words[sizeof out->message];
    *out = (ph__drv_update){.reason = reason};
    va_list args;
    va_start(args, format);
    ph__line_vformat(words, sizeof words, format, args);
    va_end(args);
    const node_pair *top = pair;
    while (top && top->outer)
        top = top->outer;
    if (top && top != pair)
        ph__line_format(out->message, sizeof out->message, "in the graph of node %zu: %s",
                        top->mine->index, words);
    else
        ph__line_format(out->message, sizeof out->message, "%s", words);
    if (top) {
        out->node = top->mine;
        out->from_node = top->theirs;
    }
    return false;
}

/* ---- dependencies ---- */

static bool depends_on(const ph__drv_node *node, size_t index)
{
    for (size_t i = 0; i < node->info.dependency_count; i++)
        if (node->info.dependencies[i]->index == index)
            return true;
    return false;
}

/* The first dependency of a that b has not, or SIZE_MAX. */
static size_t missing_dependency(const ph__drv_node *a, const ph__drv_node *b)
{
    for (size_t i = 0; i < a->info.dependency_count; i++) {
        size_t index = a->info.dependencies[i]->index;
        bool same_place = i < b->info.dependency_count && b->info.dependencies[i]->index == index;
        if (!same_place && !depends_on(b, index))
            return index;
    }
    return SIZE_MAX;
}

static ph_edge_kind kind_of(const ph__drv_node *node, size_t dependency)
{
    return node->info.dependency_kinds ? node->info.dependency_kinds[dependency] : PH_EDGE_FULL;
}

/* A kernel that a full dependency holds back need not wait by itself, as one must that may begin
 * early: the kind goes with the kernel. Both have the same dependencies. */
static bool same_kinds(const node_pair *pair, ph__drv_update *out)
{
    const ph__drv_node *mine = pair->mine, *theirs = pair->theirs;
    char words[128];
    if (!mine->info.dependency_kinds && !theirs->info.dependency_kinds)
        return true;
    for (size_t i = 0; i < mine->info.dependency_count; i++)
        for (size_t j = 0; j < theirs->info.dependency_count; j++) {
            if (mine->info.dependencies[i]->index != theirs->info.dependencies[j]->index ||
                kind_of(mine, i) == kind_of(theirs, j))
                continue;
            describe_node(words, mine);
            return mismatch(out, PH_UPDATE_TOPOLOGY, pair,
                            "%s depends on node %zu %s, in the new capture %s: the order of work "
                            "must be the same",
                            words, mine->info.dependencies[i]->index,
                            kind_of(mine, i) == PH_EDGE_FULL ? "fully" : "programmatically",
                            kind_of(theirs, j) == PH_EDGE_FULL ? "fully" : "programmatically");
        }
    return true;
}

static bool same_dependencies(const node_pair *pair, ph__drv_update *out)
{
    size_t lost = missing_dependency(pair->mine, pair->theirs);
    size_t added = missing_dependency(pair->theirs, pair->mine);
    char words[128];
    if (lost == SIZE_MAX && added == SIZE_MAX)
        return same_kinds(pair, out);
    describe_node(words, pair->mine);
    if (lost != SIZE_MAX)
        return mismatch(out, PH_UPDATE_TOPOLOGY, pair,
                        "%s depends on node %zu, in the new capture it does not: the order of work "
                        "must be the same",
                        words, lost);
    return mismatch(out, PH_UPDATE_TOPOLOGY, pair,
                    "%s depends on node %zu in the new capture, here it does not: the order of "
                    "work must be the same",
                    words, added);
}

/* ---- pairs ---- */

static size_t fill_bytes(const ph__drv_node *node)
{
    return node->info.fill.count * node->info.fill.value_size;
}

static bool same_fill(const node_pair *pair, ph__drv_update *out)
{
    const ph__drv_memset *mine = &pair->mine->info.fill, *theirs = &pair->theirs->info.fill;
    if (mine->value_size != theirs->value_size)
        return mismatch(
            out, PH_UPDATE_PARAMETERS, pair,
            "node %zu (memset) fills %u-byte elements, the new capture's fills %u-byte ones: the "
            "element size of "
            "a node cannot change",
            pair->mine->index, (unsigned)mine->value_size, (unsigned)theirs->value_size);
    if (pair->mine->is_core_fill == pair->theirs->is_core_fill)
        return true;
    if (!pair->outer && ph__cuda_fill_takes_clone(pair->mine, pair->theirs))
        return true;
    if (fill_bytes(pair->mine) <= PH__CUDA_FILL_LIMIT &&
        fill_bytes(pair->theirs) <= PH__CUDA_FILL_LIMIT)
        return mismatch(
            out, PH_UPDATE_NODE_TYPE, pair,
            "node %zu (memset of %zu bytes) is a %s node, in the new capture a %s node: small "
            "memsets of other code stay memset nodes in graphs with keep_graph and where they "
            "fill memory of another device or context; create both graphs with the same "
            "keep_graph",
            pair->mine->index, fill_bytes(pair->mine),
            pair->mine->is_core_fill ? "kernel" : "memset",
            pair->theirs->is_core_fill ? "kernel" : "memset");
    return mismatch(out, PH_UPDATE_NODE_TYPE, pair,
                    "node %zu (memset) fills %zu bytes, in the new capture %zu: fills of up to %d "
                    "bytes are nodes of "
                    "another type than larger ones",
                    pair->mine->index, fill_bytes(pair->mine), fill_bytes(pair->theirs),
                    PH__CUDA_FILL_LIMIT);
}

static int compare_graphs(ph__drv_graph *graph, ph__drv_graph *from, const node_pair *outer,
                          ph__drv_update *out);

/* CUDA's number: 0, or 910 with *out. */
static int compare_pair(const node_pair *pair, ph__drv_update *out)
{
    const ph__drv_node_info *mine = &pair->mine->info, *theirs = &pair->theirs->info;
    bool same = true;
    if (mine->kind != theirs->kind)
        same = mismatch(out, PH_UPDATE_NODE_TYPE, pair,
                        "node %zu is a %s, in the new capture it is a %s", pair->mine->index,
                        kind_word(mine->kind), kind_word(theirs->kind));
    same = same && same_dependencies(pair, out);
    if (same && mine->kind == PH_NODE_MEMSET)
        same = same_fill(pair, out);
    if (same && mine->kind == PH_NODE_GRAPH && mine->body && theirs->body)
        return compare_graphs(mine->body, theirs->body, pair, out);
    return same ? PH__R_OK : PH__R_UPDATE_FAILURE;
}

static int decode_node_of(ph__drv_node *node)
{
    return atomic_load_explicit(&node->decoded, memory_order_acquire) ? PH__R_OK
                                                                      : ph__cuda_decode(node);
}

static int list_nodes_of(ph__drv_graph *graph)
{
    ph__drv_node *const *nodes;
    size_t count;
    int result = ph__cuda_graph_nodes(&nodes, &count, graph);
    for (size_t i = 0; result == PH__R_OK && i < count; i++)
        result = decode_node_of(nodes[i]);
    return result;
}

static int compare_graphs(ph__drv_graph *graph, ph__drv_graph *from, const node_pair *outer,
                          ph__drv_update *out)
{
    int result = list_nodes_of(graph);
    if (result == PH__R_OK)
        result = list_nodes_of(from);
    if (result != PH__R_OK)
        return result;
    size_t mine = graph->nodes.count, theirs = from->nodes.count;
    for (size_t i = 0; i < mine && i < theirs && result == PH__R_OK; i++) {
        node_pair pair = {graph->nodes.at[i], from->nodes.at[i], outer};
        result = compare_pair(&pair, out);
    }
    if (result == PH__R_OK && mine != theirs) {
        mismatch(out, PH_UPDATE_TOPOLOGY, outer,
                 "the executable has %zu nodes, the new capture %zu: %s", mine, theirs,
                 mine < theirs ? "it does more work" : "it does less work");
        return PH__R_UPDATE_FAILURE;
    }
    return result;
}

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

static void explain_copy(ph__drv_update *out, ph_update_reason reason, const node_pair *pair)
{
    const ph__drv_node *mine = pair->mine, *theirs = pair->theirs;
    if (mine->src_type != theirs->src_type || mine->dst_type != theirs->dst_type)
        mismatch(out, reason, pair,
                 "node %zu (memcpy) copies %s to %s, the new capture's copies %s to %s: the kind "
                 "of a copy "
                 "cannot change",
                 mine->index, memory_word(mine->src_type), memory_word(mine->dst_type),
                 memory_word(theirs->src_type), memory_word(theirs->dst_type));
    else
        mismatch(out, reason, pair,
                 "node %zu (memcpy) cannot take the new capture's copy of %zu bytes from %p to %p "
                 "in place "
                 "of %zu bytes "
                 "from %p to %p: the kind of memory on each side cannot change",
                 mine->index, theirs->info.copy.bytes, theirs->info.copy.src, theirs->info.copy.dst,
                 mine->info.copy.bytes, mine->info.copy.src, mine->info.copy.dst);
}

static void explain_pair(ph__drv_update *out, int result, const node_pair *pair)
{
    ph_update_reason reason = reason_of(result);
    char mine[128], theirs[128];
    describe_node(mine, pair->mine);
    describe_node(theirs, pair->theirs);
    if (reason == PH_UPDATE_TOPOLOGY)
        mismatch(out, reason, pair, "%s stands in another order than in the new capture", mine);
    else if (reason == PH_UPDATE_NODE_TYPE)
        mismatch(out, reason, pair, "%s is of another type in the new capture", mine);
    else if (reason == PH_UPDATE_FUNCTION)
        mismatch(out, reason, pair,
                 "%s cannot become %s: the two functions differ in what a node cannot change", mine,
                 theirs);
    else if (result == 8)
        mismatch(out, reason, pair,
                 "%s has other launch attributes in the new capture, which cannot change", mine);
    else if (reason == PH_UPDATE_PARAMETERS && pair->mine->info.kind == PH_NODE_MEMCPY)
        explain_copy(out, reason, pair);
    else if (reason == PH_UPDATE_PARAMETERS)
        mismatch(out, reason, pair, "%s has parameters in the new capture that it cannot take",
                 mine);
    else
        mismatch(out, reason, pair,
                 "%s cannot be updated: the driver does not support it for such nodes", mine);
}

static ph__drv_node *node_of(const ph__drv_graph *graph, ph__cu_node handle)
{
    for (size_t i = 0; handle && i < graph->nodes.count; i++)
        if (graph->nodes.at[i]->handle == handle)
            return graph->nodes.at[i];
    return NULL;
}

/* The driver blames a node of the new graph, or none; both graphs are listed. */
static void explain_refusal(ph__drv_update *out, const ph__drv_exec *exec,
                            const ph__drv_graph *from, const ph__cu_update_result *why)
{
    ph__drv_node *theirs = node_of(from, why->node);
    ph__drv_node *mine = theirs ? NULL : node_of(exec->graph, why->node);
    if (theirs)
        mine = exec->graph->nodes.at[theirs->index];
    else if (mine)
        theirs = from->nodes.at[mine->index];
    if (mine)
        explain_pair(out, why->result, &(node_pair){mine, theirs, NULL});
    else
        mismatch(out, reason_of(why->result), NULL,
                 "the driver refuses it and names no node (result %d)", why->result);
}

/* ---- the update ---- */

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
    for (size_t i = 0; result == PH__R_OK && exec->kernels && i < exec->graph->nodes.count; i++)
        exec->kernels[i] = from->nodes.at[i]->info.kernel;
    return result;
}

int ph__cuda_exec_update(ph__drv_exec *exec, ph__drv_graph *from, ph__drv_update *out)
{
    if (!exec || !from)
        return PH__R_INVALID_VALUE;
    ph__drv_update answer = {.reason = PH_UPDATE_OK};
    int result = PH__R_OK;
    if (from->device != exec->device) {
        mismatch(&answer, PH_UPDATE_UNSUPPORTED, NULL, "the new capture is of another device");
        result = PH__R_UPDATE_FAILURE;
    }
    if (result == PH__R_OK)
        result = compare_graphs(exec->graph, from, NULL, &answer);
    if (result == PH__R_OK && !ph__cuda_exec_reserve_kernels(exec, from))
        result = PH__R_OUT_OF_MEMORY;
    ph__cuda_layout **layouts = NULL;
    if (result == PH__R_OK && !ph__cuda_layouts_copy(&layouts, exec->graph, from))
        result = PH__R_OUT_OF_MEMORY;
    if (result == PH__R_OK)
        result = update_at_driver(exec, from, &answer);
    if (result == PH__R_OK) {
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
