/* SPDX-License-Identifier: MIT */
/* driver/host/exec/update.c: giving an executable the parameters of another graph of the same
 * shape, or saying why that is not possible. */
#include "base/line.h"
#include "driver/host/exec/changes.h"
#include "driver/host/exec/exec.h"
#include "driver/host/resource/rules.h"
#include "driver/host/stream/entries.h"
#include <stdio.h>
#include <string.h>

static const char *kind_word(ph_node_kind kind)
{
    static const char *const words[] = {
        [PH_NODE_KERNEL] = "kernel",         [PH_NODE_MEMCPY] = "memcpy",
        [PH_NODE_MEMSET] = "memset",         [PH_NODE_HOST] = "host function",
        [PH_NODE_GRAPH] = "graph",           [PH_NODE_EMPTY] = "empty node",
        [PH_NODE_EVENT_WAIT] = "event wait", [PH_NODE_EVENT_RECORD] = "event record",
    };
    return words[kind];
}

/* The template's node and the new graph's of the same index; outer: the pair of child graphs
 * whose bodies they are in, or NULL. */
typedef struct node_pair node_pair;
struct node_pair {
    const ph__host_node *mine, *theirs;
    const node_pair *outer;
};

/* Where a difference is goes in front of its words. Out of many levels the outermost are told. */
static size_t write_place(char *out, size_t size, const node_pair *outer)
{
    if (!outer)
        return 0;
    size_t at = write_place(out, size, outer->outer);
    int more = snprintf(out + at, size - at, "in the graph of node %zu: ", outer->mine->index);
    return more > 0 && (size_t)more < size - at ? at + (size_t)more : at;
}

/* Nodes of bodies have no names above: the node of the template that they are in stands for
 * them. */
PH_PRINTF(5, 6)
static bool fail_mismatch(ph__drv_update *out, ph_update_reason reason, const node_pair *pair,
                          const node_pair *outer, const char *format, ...)
{
    char place[sizeof out->message / 2];
    size_t at = write_place(place, sizeof place, outer);
    *out = (ph__drv_update){.reason = reason};
    while (outer) {
        pair = outer;
        outer = outer->outer;
    }
    if (pair) {
        out->node = pair->mine->self;
        out->from_node = pair->theirs->self;
    }
    memcpy(out->message, place, at);
    va_list args;
    va_start(args, format);
    ph__line_vformat(out->message + at, sizeof out->message - at, format, args);
    va_end(args);
    return false;
}

static bool depends_on(const ph__host_node *node, size_t index)
{
    for (size_t i = 0; i < node->dependency_count; i++) {
        if (ph__host_node_of(node->dependencies[i])->index == index)
            return true;
    }
    return false;
}

/* The first dependency of a that b has not, or SIZE_MAX. Sets without repetitions, nearly always
 * in the same order. */
static size_t missing_dependency(const ph__host_node *a, const ph__host_node *b)
{
    for (size_t i = 0; i < a->dependency_count; i++) {
        size_t index = ph__host_node_of(a->dependencies[i])->index;
        bool same_place =
            i < b->dependency_count && ph__host_node_of(b->dependencies[i])->index == index;
        if (!same_place && !depends_on(b, index))
            return index;
    }
    return SIZE_MAX;
}

static bool same_dependencies(const node_pair *pair, ph__drv_update *out)
{
    size_t index = pair->mine->index;
    const char *kind = kind_word(pair->mine->work.kind);
    size_t lost = missing_dependency(pair->mine, pair->theirs);
    if (lost != SIZE_MAX)
        return fail_mismatch(
            out, PH_UPDATE_TOPOLOGY, pair, pair->outer,
            "node %zu (%s) depends on node %zu, in the new capture it does not: the order of "
            "work must be the same",
            index, kind, lost);
    size_t added = missing_dependency(pair->theirs, pair->mine);
    if (added != SIZE_MAX)
        return fail_mismatch(
            out, PH_UPDATE_TOPOLOGY, pair, pair->outer,
            "node %zu (%s) depends on node %zu in the new capture, here it does not: the order "
            "of work must be the same",
            index, kind, added);
    return true;
}

static const char *name_of_side(bool on_device)
{
    return on_device ? "device" : "host";
}

static bool same_fixed_parameters(const node_pair *pair, ph__drv_update *out)
{
    const ph__host_work *mine = &pair->mine->work, *theirs = &pair->theirs->work;
    if (mine->kind == PH_NODE_MEMSET) {
        uint32_t my_size = ((const ph__drv_memset *)mine->args)->value_size;
        uint32_t their_size = ((const ph__drv_memset *)theirs->args)->value_size;
        if (my_size != their_size)
            return fail_mismatch(
                out, PH_UPDATE_PARAMETERS, pair, pair->outer,
                "node %zu (memset) fills %u-byte elements, the new capture's fills %u-byte ones: "
                "the element size "
                "of a node cannot change",
                pair->mine->index, my_size, their_size);
    }
    if (mine->dst_on_device != theirs->dst_on_device ||
        mine->src_on_device != theirs->src_on_device)
        return fail_mismatch(
            out, PH_UPDATE_PARAMETERS, pair, pair->outer,
            "node %zu (memcpy) copies %s to %s, the new capture's copies %s to %s: the kind of a "
            "copy cannot change",
            pair->mine->index, name_of_side(mine->src_on_device), name_of_side(mine->dst_on_device),
            name_of_side(theirs->src_on_device), name_of_side(theirs->dst_on_device));
    return true;
}

static bool same_graphs(const ph__host_graph *mine, const ph__host_graph *theirs,
                        const node_pair *outer, ph__drv_update *out);

static bool same_nodes(const node_pair *pair, ph__drv_update *out)
{
    const ph__host_work *mine = &pair->mine->work, *theirs = &pair->theirs->work;
    if (mine->kind != theirs->kind)
        return fail_mismatch(out, PH_UPDATE_NODE_TYPE, pair, pair->outer,
                             "node %zu is a %s, in the new capture it is a %s", pair->mine->index,
                             kind_word(mine->kind), kind_word(theirs->kind));
    return same_dependencies(pair, out) && same_fixed_parameters(pair, out) &&
           (!mine->body || same_graphs(mine->body, theirs->body, pair, out));
}

static bool same_graphs(const ph__host_graph *mine, const ph__host_graph *theirs,
                        const node_pair *outer, ph__drv_update *out)
{
    size_t my_count = mine->nodes.count, their_count = theirs->nodes.count;
    for (size_t i = 0; i < my_count && i < their_count; i++) {
        const node_pair pair = {ph__host_node_of(mine->nodes.at[i]),
                                ph__host_node_of(theirs->nodes.at[i]), outer};
        if (!same_nodes(&pair, out))
            return false;
    }
    if (my_count != their_count)
        return fail_mismatch(out, PH_UPDATE_TOPOLOGY, NULL, outer,
                             "the executable has %zu nodes, the new capture %zu: %s", my_count,
                             their_count,
                             my_count < their_count ? "it does more work" : "it does less work");
    return true;
}

static bool same_shape(const ph__host_exec *exec, const ph__host_graph *graph, ph__drv_update *out)
{
    if (graph->device != exec->device)
        return fail_mismatch(out, PH_UPDATE_UNSUPPORTED, NULL, NULL,
                             "the new capture is of another device");
    return same_graphs(exec->graph, graph, NULL, out);
}

/* A node that was switched off stays so. */
static ph__exec_slot view_for(const ph__host_exec *exec, const ph__host_node *node, size_t slot)
{
    ph__exec_slot view;
    ph__exec_slot_view(&view, node, slot);
    view.enabled = exec->params->slots[slot].enabled;
    return view;
}

/* Visits of the new graph's slots; context: the executable, with its lock held. */
static bool params_accept(void *context, const ph__host_node *node, size_t slot)
{
    const ph__host_exec *exec = context;
    const ph__exec_slot view = view_for(exec, node, slot);
    return ph__exec_slot_accepts(&exec->params->slots[slot], &view);
}

/* Arguments that have bytes are never called equal: they may hold a user's padding, which nobody
 * has written. */
static bool slots_equal(const ph__exec_slot *a, const ph__exec_slot *b)
{
    return a->fn == b->fn && a->is_inline == b->is_inline &&
           memcmp(a->grid, b->grid, sizeof a->grid) == 0 &&
           memcmp(a->block, b->block, sizeof a->block) == 0 && a->shared_bytes == b->shared_bytes &&
           a->args_size == 0 && b->args_size == 0;
}

static bool assign_params(void *context, const ph__host_node *node, size_t slot)
{
    ph__host_exec *exec = context;
    const ph__exec_slot view = view_for(exec, node, slot);
    if (slots_equal(&exec->params->slots[slot], &view))
        return true;
    ph__exec_slot_assign(&exec->params->slots[slot], &view);
    ph__exec_note(exec, slot);
    return true;
}

/* Something does not fit where it is: new parameters and a new image. */
static int rebuild_exec(ph__host_exec *exec, const ph__host_graph *graph)
{
    ph__exec_params *params = ph__exec_params_of_graph(graph);
    if (!params)
        return PH__R_OUT_OF_MEMORY;
    for (size_t i = 0; i < params->count; i++)
        params->slots[i].enabled = exec->params->slots[i].enabled;
    ph__exec_image *image = ph__exec_image_create(exec, params);
    if (!image) {
        ph__exec_params_free(params);
        return PH__R_OUT_OF_MEMORY;
    }
    ph__exec_replace(exec, params, image);
    return PH__R_OK;
}

int ph__host_exec_update(ph__drv_exec *exec_handle, ph__drv_graph *graph_handle,
                         ph__drv_update *out)
{
    ph__host_exec *exec = (ph__host_exec *)exec_handle;
    const ph__host_graph *graph = ph__host_graph_of(graph_handle);
    if (!exec || !graph)
        return PH__R_INVALID_VALUE;
    int result = ph__host_rule(exec->device, PH__RULE_EXEC_UPDATE);
    if (result)
        return result;
    ph__drv_update difference;
    if (!same_shape(exec, graph, &difference)) {
        ph__driver_set_reason("%s", difference.message);
        if (out)
            *out = difference;
        return PH__R_UPDATE_FAILURE;
    }
    ph__exec_upload_first(exec);
    pthread_mutex_lock(&exec->lock);
    if (ph__exec_each_slot(graph, 0, params_accept, exec))
        (void)ph__exec_each_slot(graph, 0, assign_params, exec); /* assign_params always goes on */
    else
        result = rebuild_exec(exec, graph);
    pthread_mutex_unlock(&exec->lock);
    if (result == PH__R_OK && out)
        *out = (ph__drv_update){.reason = PH_UPDATE_OK};
    return result;
}
