/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/compare.c: whether two graphs have the same shape. Nodes are paired in order of
 * creation, as the layers above do it, before the driver is asked for an update: what it might pair
 * otherwise is refused. */
#include "driver/cuda/exec/compare.h"
#include "base/line.h"
#include "driver/cuda/exec/shape.h"
#include "driver/cuda/load/core.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/decode.h"
#include "driver/cuda/nodes/fills.h"
#include "driver/cuda/nodes/list.h"

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

static int decode_node_of(ph__drv_node *node)
{
    return atomic_load_explicit(&node->decoded, memory_order_acquire) ? PH__R_OK
                                                                      : ph__cuda_decode(node);
}

/* A node that cannot be read has no name. */
void ph__cuda_describe_node(char out[128], ph__drv_node *node)
{
    (void)decode_node_of(node);
    if (node->info.kind == PH_NODE_KERNEL && node->info.kernel_name)
        ph__line_format(out, 128, "node %zu (kernel %s)", node->index, node->info.kernel_name);
    else
        ph__line_format(out, 128, "node %zu (%s)", node->index, kind_word(node->info.kind));
}

bool ph__cuda_mismatch(ph__drv_update *out, ph_update_reason reason, const ph__cuda_pair *pair,
                       const char *format, ...)
{
    char words[sizeof out->message];
    *out = (ph__drv_update){.reason = reason};
    va_list args;
    va_start(args, format);
    ph__line_vformat(words, sizeof words, format, args);
    va_end(args);
    const ph__cuda_pair *top = pair;
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
static bool same_kinds(const ph__cuda_pair *pair, ph__drv_update *out)
{
    ph__drv_node *mine = pair->mine, *theirs = pair->theirs;
    char words[128];
    if (!mine->info.dependency_kinds && !theirs->info.dependency_kinds)
        return true;
    for (size_t i = 0; i < mine->info.dependency_count; i++)
        for (size_t j = 0; j < theirs->info.dependency_count; j++) {
            if (mine->info.dependencies[i]->index != theirs->info.dependencies[j]->index ||
                kind_of(mine, i) == kind_of(theirs, j))
                continue;
            ph__cuda_describe_node(words, mine);
            return ph__cuda_mismatch(
                out, PH_UPDATE_TOPOLOGY, pair,
                "%s depends on node %zu %s, in the new capture %s: the order of work "
                "must be the same",
                words, mine->info.dependencies[i]->index,
                kind_of(mine, i) == PH_EDGE_FULL ? "fully" : "programmatically",
                kind_of(theirs, j) == PH_EDGE_FULL ? "fully" : "programmatically");
        }
    return true;
}

static bool same_dependencies(const ph__cuda_pair *pair, ph__drv_update *out)
{
    size_t lost = missing_dependency(pair->mine, pair->theirs);
    size_t added = missing_dependency(pair->theirs, pair->mine);
    char words[128];
    if (lost == SIZE_MAX && added == SIZE_MAX)
        return same_kinds(pair, out);
    ph__cuda_describe_node(words, pair->mine);
    if (lost != SIZE_MAX)
        return ph__cuda_mismatch(
            out, PH_UPDATE_TOPOLOGY, pair,
            "%s depends on node %zu, in the new capture it does not: the order of work "
            "must be the same",
            words, lost);
    return ph__cuda_mismatch(
        out, PH_UPDATE_TOPOLOGY, pair,
        "%s depends on node %zu in the new capture, here it does not: the order of "
        "work must be the same",
        words, added);
}

/* ---- pairs ---- */

static size_t fill_bytes(const ph__drv_node *node)
{
    return node->info.fill.count * node->info.fill.value_size;
}

static bool same_fill(const ph__cuda_pair *pair, ph__drv_update *out)
{
    const ph__drv_memset *mine = &pair->mine->info.fill, *theirs = &pair->theirs->info.fill;
    if (mine->value_size != theirs->value_size)
        return ph__cuda_mismatch(
            out, PH_UPDATE_PARAMETERS, pair,
            "node %zu (memset) fills %u-byte elements, the new capture's fills %u-byte ones: the "
            "element size of "
            "a node cannot change",
            pair->mine->index, (unsigned)mine->value_size, (unsigned)theirs->value_size);
    if (pair->mine->is_core_fill == pair->theirs->is_core_fill)
        return true;
    if (!pair->outer && ph__cuda_fill_accepts_clone(pair->mine, pair->theirs))
        return true;
    if (fill_bytes(pair->mine) <= PH__CUDA_FILL_LIMIT &&
        fill_bytes(pair->theirs) <= PH__CUDA_FILL_LIMIT)
        return ph__cuda_mismatch(
            out, PH_UPDATE_NODE_TYPE, pair,
            "node %zu (memset of %zu bytes) is a %s node, in the new capture a %s node: small "
            "memsets of other code stay memset nodes in graphs with keep_graph and where they "
            "fill memory of another device or context; create both graphs with the same "
            "keep_graph",
            pair->mine->index, fill_bytes(pair->mine),
            pair->mine->is_core_fill ? "kernel" : "memset",
            pair->theirs->is_core_fill ? "kernel" : "memset");
    return ph__cuda_mismatch(
        out, PH_UPDATE_NODE_TYPE, pair,
        "node %zu (memset) fills %zu bytes, in the new capture %zu: fills of up to %d "
        "bytes are nodes of "
        "another type than larger ones",
        pair->mine->index, fill_bytes(pair->mine), fill_bytes(pair->theirs), PH__CUDA_FILL_LIMIT);
}

/* CUDA's number: 0, or 910 with *out. */
static int compare_pair(const ph__cuda_pair *pair, ph__drv_update *out)
{
    const ph__drv_node_info *mine = &pair->mine->info, *theirs = &pair->theirs->info;
    bool same = true;
    if (mine->kind != theirs->kind) { /* a launch of the core's fill kernel is a memset once read */
        int result = decode_node_of(pair->mine);
        if (result == PH__R_OK)
            result = decode_node_of(pair->theirs);
        if (result != PH__R_OK)
            return result;
    }
    if (mine->kind != theirs->kind)
        same = ph__cuda_mismatch(out, PH_UPDATE_NODE_TYPE, pair,
                                 "node %zu is a %s, in the new capture it is a %s",
                                 pair->mine->index, kind_word(mine->kind), kind_word(theirs->kind));
    same = same && same_dependencies(pair, out);
    if (same && mine->kind == PH_NODE_MEMSET)
        same = same_fill(pair, out);
    if (same && mine->kind == PH_NODE_GRAPH && mine->body && theirs->body)
        return ph__cuda_compare_graphs(mine->body, theirs->body, pair, out);
    return same ? PH__R_OK : PH__R_UPDATE_FAILURE;
}

/* Kinds and dependencies of all nodes; of fills and child graphs all that is compared. */
static int list_nodes_of(ph__drv_graph *graph)
{
    int result = ph__cuda_graph_link(graph);
    for (size_t i = 0; result == PH__R_OK && i < graph->nodes.count; i++) {
        ph__drv_node *node = graph->nodes.at[i];
        if (node->info.kind == PH_NODE_MEMSET || node->info.kind == PH_NODE_GRAPH)
            result = decode_node_of(node);
    }
    return result;
}

int ph__cuda_compare_graphs(ph__drv_graph *graph, ph__drv_graph *from, const ph__cuda_pair *outer,
                            ph__drv_update *out)
{
    bool same = false;
    int result = list_nodes_of(graph);
    if (result == PH__R_OK)
        result = ph__cuda_same_shape(&same, graph, from);
    if (result == PH__R_OK && same)
        return PH__R_OK;
    if (result == PH__R_OK)
        result = list_nodes_of(from);
    if (result != PH__R_OK)
        return result;
    size_t mine = graph->nodes.count, theirs = from->nodes.count;
    for (size_t i = 0; i < mine && i < theirs && result == PH__R_OK; i++) {
        ph__cuda_pair pair = {graph->nodes.at[i], from->nodes.at[i], outer};
        result = compare_pair(&pair, out);
    }
    if (result == PH__R_OK && mine != theirs) {
        ph__cuda_mismatch(out, PH_UPDATE_TOPOLOGY, outer,
                          "the executable has %zu nodes, the new capture %zu: %s", mine, theirs,
                          mine < theirs ? "it does more work" : "it does less work");
        return PH__R_UPDATE_FAILURE;
    }
    return result;
}
