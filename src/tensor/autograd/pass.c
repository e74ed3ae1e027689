/* SPDX-License-Identifier: MIT */
/* tensor/autograd/pass.c: the plan of a pass of backward: walks over nodes that launch nothing. */
#include "tensor/autograd/pass.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/status.h"
#include "tensor/core/describe.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/leaf.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"

/* ---- leaves ---- */
static bool fail_leaves(const ph__pass *pass)
{
    ph__tape_fail_host_memory(pass->tape, pass->call, "the gradients of leaves");
    return false;
}

static bool index_slot(ph__pass *pass, size_t index)
{
    return ph__map_put(&pass->by_leaf, (uintptr_t)pass->slots.at[index].leaf,
                       (void *)(uintptr_t)(index + 1));
}

uint32_t ph__pass_slot(const ph__pass *pass, const ph_tensor *leaf)
{
    for (size_t i = 0; i < pass->unindexed; i++)
        if (pass->slots.at[i].leaf == leaf)
            return (uint32_t)i;
    return (uint32_t)(uintptr_t)ph__map_get(&pass->by_leaf, (uintptr_t)leaf) - 1;
}

static bool index_all(ph__pass *pass)
{
    for (; pass->unindexed > 0; pass->unindexed--)
        if (!index_slot(pass, pass->unindexed - 1))
            return fail_leaves(pass);
    return true;
}

/* Room for as many leaves as the tape's last pass had: steps of a training are alike. */
static bool reserve_slots(ph__pass *pass)
{
    size_t before = pass->tape->leaves;
    return before == 0 ||
           (ph__map_reserve(&pass->by_leaf, before) && ph__vec_reserve(&pass->slots, before)) ||
           fail_leaves(pass);
}

static bool make_slot(ph__pass *pass, ph_tensor *leaf, uint32_t *out)
{
    if (pass->slots.count == 0 && !reserve_slots(pass))
        return false;
    if (pass->unindexed > 0 && !index_all(pass))
        return false;
    *out = ph__pass_slot(pass, leaf);
    if (*out != PH__NO_SLOT)
        return true;
    size_t index = pass->slots.count;
    ph__gradient_slot slot = {.leaf = leaf};
    if (!ph__tensor_leaf(leaf) || !ph__vec_push(&pass->slots, slot))
        return fail_leaves(pass);
    if (!index_slot(pass, index)) {
        pass->slots.count--;
        return fail_leaves(pass);
    }
    ph_tensor_retain(leaf);
    *out = (uint32_t)index;
    return true;
}

/* ---- what is asked for ---- */
static bool is_input(const ph__pass *pass, const ph__node *node, uint32_t output)
{
    for (size_t i = 0; i < pass->input_count; i++)
        if (pass->inputs[i]->node == node && pass->inputs[i]->output == output)
            return true;
    return false;
}

bool ph__pass_needs(const ph__pass *pass, const ph__edge *edge)
{
    if (edge->leaf)
        return edge->slot != PH__NO_SLOT;
    if (!edge->node)
        return false;
    if (!pass->inputs)
        return true;
    /* Marks below the floor are those of a pass around this one. */
    return edge->node->index >= pass->floor &&
           (edge->node->wanted ||
            (edge->node->captured && is_input(pass, edge->node, edge->output)));
}

static void fail_pass_input(const ph__pass *pass, size_t i, const char *why)
{
    char text[PH__DESCRIBE];
    ph_tape_fail(pass->tape, PH_ERROR_ARGUMENT, "%s: input %zu (%s) %s", pass->call, i,
                 ph__describe(text, pass->inputs[i]), why);
}

static bool fail_nested(const ph__pass *pass)
{
    ph_tape_fail(
        pass->tape, PH_ERROR_STATE,
        "%s: called from inside a pass of backward, it reaches history from before; detach what "
        "comes from there",
        pass->call);
    return false;
}

/* A graph gives the same whatever its parameters require when it is captured. */
static bool is_asked_for(const ph__pass *pass, const ph_tensor *leaf)
{
    return leaf->requires_grad || pass->tape->recaptures;
}

/* Marks what makes the inputs, and gives slots to those that are leaves. */
static bool mark_inputs(ph__pass *pass)
{
    uint32_t slot;
    for (size_t i = 0; i < pass->input_count; i++) {
        ph_tensor *x = pass->inputs[i];
        if (!x) {
            fail_pass_input(pass, i, "must be a tensor");
            return false;
        }
        if (x->gone) {
            ph_tape_check(pass->tape, ph__quarantine_fail(x, pass->call, "an input"));
            return false;
        }
        if (!ph__node_is_alive(x->node)) {
            if (is_asked_for(pass, x) && !make_slot(pass, x, &slot))
                return false;
        } else if (x->node->tape != pass->tape) {
            fail_pass_input(pass, i, "has its history on another tape");
            return false;
        } else if (x->node->index < pass->floor) {
            return fail_nested(pass);
        } else {
            x->node->captured = true;
        }
    }
    return true;
}

/* The slots of leaves that nodes share are this pass's; edges with those of a pass that is under
 * way stay as they are. */
static bool claim_edges(ph__pass *pass, ph__node *node)
{
    ph__leaf_edges *leaf_edges = node->leaf_edges;
    if (!leaf_edges || leaf_edges->pass == pass)
        return true;
    if (leaf_edges->pass)
        return ph__node_own_edges(node) || fail_leaves(pass);
    leaf_edges->pass = pass;
    leaf_edges->next = pass->leaf_edges;
    pass->leaf_edges = leaf_edges;
    return true;
}

/* Oldest first: a node is wanted when the gradient of one of its operands is needed. */
static bool mark_wanted(ph__pass *pass)
{
    for (size_t i = pass->floor; i < pass->top; i++) {
        ph__node *node = pass->tape->nodes.at[i];
        if (!claim_edges(pass, node))
            return false;
        for (size_t k = 0; k < node->in_count; k++) {
            ph__edge *edge = ph__node_edge(node, k);
            edge->slot = edge->leaf ? ph__pass_slot(pass, edge->leaf) : PH__NO_SLOT;
            node->wanted = node->wanted || ph__pass_needs(pass, edge);
        }
    }
    return true;
}

/* ---- what is reached ---- */
static bool reach_leaf(ph__pass *pass, ph__edge *edge)
{
    if (!pass->inputs) {
        edge->slot = PH__NO_SLOT;
        if (edge->leaf->requires_grad && !make_slot(pass, edge->leaf, &edge->slot))
            return false;
    }
    if (edge->slot != PH__NO_SLOT)
        pass->slots.at[edge->slot].uses++;
    return true;
}

/* The first leaves of a pass, none of them twice, need no look at others. */
static bool reach_first_leaves(ph__pass *pass, ph__leaf_edges *leaf_edges)
{
    const size_t count = leaf_edges->count;
    if (!ph__vec_reserve(&pass->slots, count))
        return fail_leaves(pass);
    ph__gradient_slot *const slots = pass->slots.at;
    ph__edge *edge = leaf_edges->at;
    uint32_t reached = 0;
    for (size_t i = 0; i < count; i++, edge++) {
        ph_tensor *leaf = edge->leaf;
        edge->slot = PH__NO_SLOT;
        if (!leaf || !leaf->requires_grad)
            continue;
        if (!leaf->leaf && !ph__tensor_leaf(leaf))
            return fail_leaves(pass);
        slots[reached].leaf = leaf;
        slots[reached].grad = NULL;
        slots[reached].uses = 1;
        edge->slot = reached++;
    }
    pass->slots.count = pass->unindexed = pass->borrowed = reached;
    return true;
}

static bool reach_operands(ph__pass *pass, ph__node *node)
{
    size_t count = node->in_count;
    if (node->in_count > pass->widest)
        pass->widest = node->in_count;
    if (!claim_edges(pass, node))
        return false;
    if (node->leaf_edges && node->leaf_edges->distinct && !pass->inputs && pass->slots.count == 0) {
        if (!reach_first_leaves(pass, node->leaf_edges))
            return false;
        count = node->own_count;
    }
    for (size_t k = 0; k < count; k++) {
        ph__edge *edge = ph__node_edge(node, k);
        if (edge->leaf) {
            if (!reach_leaf(pass, edge))
                return false;
        } else if (edge->node && ph__pass_needs(pass, edge)) {
            if (edge->node->index < pass->floor)
                return fail_nested(pass);
            edge->node->reached = true;
        }
    }
    return true;
}

static bool reach_outputs(ph__pass *pass)
{
    uint32_t slot;
    for (size_t i = 0; i < pass->output_count; i++) {
        ph_tensor *x = pass->outputs[i];
        if (ph__node_is_alive(x->node)) {
            if (x->node->index < pass->floor)
                return fail_nested(pass);
            x->node->reached = true;
        } else if (!pass->inputs || ph__pass_slot(pass, x) != PH__NO_SLOT) {
            if (!make_slot(pass, x, &slot))
                return false;
            pass->slots.at[slot].uses++;
        }
    }
    return true;
}

/* Newest first, which is against the order in which they depend on each other. */
static bool mark_reached(ph__pass *pass)
{
    if (!reach_outputs(pass))
        return false;
    for (size_t i = pass->top; i-- > pass->floor;) {
        ph__node *node = pass->tape->nodes.at[i];
        if (ph__pass_runs(pass, node) && !reach_operands(pass, node))
            return false;
    }
    return true;
}

static bool check_unused(const ph__pass *pass, bool allowed)
{
    for (size_t i = 0; i < pass->input_count && !allowed; i++) {
        const ph_tensor *x = pass->inputs[i];
        uint32_t slot = ph__pass_slot(pass, x);
        bool used = ph__node_is_alive(x->node)
                        ? x->node->reached
                        : slot != PH__NO_SLOT && pass->slots.at[slot].uses > 0;
        if (!used) {
            fail_pass_input(pass, i,
                            ph__needs_grad(x)
                                ? "takes no part in the outputs; allow_unused gives NULL for it"
                                : "requires no gradient; allow_unused gives NULL for it");
            return false;
        }
    }
    return true;
}

/* ---- streams ---- */
static bool check_streams(const ph__pass *pass)
{
    const ph_tape *tape = pass->tape;
    if (!tape->refuse_other_streams || pass->inputs || !ph_stream_is_capturing(tape->stream))
        return true;
    for (size_t i = 0; i < pass->slots.count; i++) {
        const ph_tensor *x = pass->slots.at[i].leaf;
        const ph_stream *first = atomic_load_explicit(&x->leaf->stream, memory_order_relaxed);
        if (first && first != tape->stream) {
            char text[PH__DESCRIBE];
            ph_tape_fail(
                pass->tape, PH_ERROR_STATE,
                "%s: the leaf %s was first used on another stream than the one that captures, and "
                "this tape refuses that "
                "(refuse_other_streams)",
                pass->call, ph__describe(text, x));
            return false;
        }
    }
    return true;
}

/* One block for all. Each node that is run fills it anew. */
static bool make_scratch(ph__pass *pass)
{
    size_t most = pass->widest, bytes;
    if (most == 0)
        return true;
    pass->in_grads =
        ph__mul(most, 3 * sizeof(ph_tensor *) + 4 * sizeof(bool), &bytes) ? ph__alloc(bytes) : NULL;
    if (!pass->in_grads) {
        ph__tape_fail_host_memory(pass->tape, pass->call, "gradients");
        return false;
    }
    pass->leaves = pass->in_grads + most;
    pass->sums = pass->leaves + most;
    pass->needed = (bool *)(pass->sums + most);
    pass->sole = pass->needed + most;
    pass->wide = pass->sole + most;
    pass->summed = pass->wide + most;
    return true;
}

bool ph__pass_plan(ph__pass *pass)
{
    if (pass->inputs && !(mark_inputs(pass) && mark_wanted(pass)))
        return false;
    return mark_reached(pass) && check_unused(pass, pass->allow_unused) && check_streams(pass) &&
           make_scratch(pass);
}

/* ---- what was found ---- */
void ph__pass_capture(ph__pass *pass, const ph__node *node)
{
    for (size_t i = 0; i < pass->input_count; i++) {
        const ph_tensor *x = pass->inputs[i];
        if (x->node == node && !pass->found[i])
            pass->found[i] = ph_tensor_retain(node->pending[x->output]);
    }
}

void ph__pass_found(ph__pass *pass, const ph_tensor *leaf, ph_tensor *grad)
{
    for (size_t i = 0; i < pass->input_count; i++)
        if (pass->inputs[i] == leaf)
            pass->found[i] = ph_tensor_retain(grad);
}

void ph__pass_end(ph__pass *pass, size_t below)
{
    for (size_t i = pass->floor; i < below; i++)
        ph__node_drop_pending(pass->tape->nodes.at[i]);
    for (; pass->leaf_edges; pass->leaf_edges = pass->leaf_edges->next)
        pass->leaf_edges->pass = NULL;
    const size_t count = pass->slots.count, borrowed = pass->borrowed;
    for (size_t i = 0; i < count; i++)
        if (pass->slots.at[i].grad)
            ph_tensor_release(pass->slots.at[i].grad);
    for (size_t i = borrowed; i < count; i++)
        ph_tensor_release(pass->slots.at[i].leaf);
    pass->tape->leaves = count;
    ph__vec_free(&pass->slots);
    ph__map_free(&pass->by_leaf);
    ph__free(pass->in_grads);
}
