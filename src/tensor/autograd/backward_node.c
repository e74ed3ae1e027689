/* SPDX-License-Identifier: MIT */
/* tensor/autograd/backward_node.c: one node in backward: its function, its hooks, and
 * where its gradients go. */
#include "tensor/autograd/backward_node.h"
#include "tensor/autograd/gradients.h"
#include "tensor/autograd/hooks_run.h"
#include "tensor/autograd/marks.h"
#include "tensor/autograd/pass.h"
#include "tensor/autograd/recompute.h"
#include "tensor/core/describe.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/operators/reductions.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"
#include <stdio.h>

static bool fail_released(const ph__node *node)
{
    ph_tape_fail(
        node->tape, PH_ERROR_STATE,
        "backward of %s: a second pass through it: what it had saved was released by the first; "
        "retain_graph of the first keeps it",
        node->name);
    return false;
}

static bool fail_saved_overwritten(const ph__node *node, const ph_tensor *x)
{
    char call[96];
    (void)snprintf(call, sizeof call, "backward of %s", node->name);
    ph_tape_check(node->tape, ph__fail_overwritten(x, call, "a value that it saved"));
    return false;
}

static bool check_saved_versions(const ph__node *node)
{
    for (size_t i = 0; i < node->saved_count; i++) {
        const ph_tensor *x = node->saved[i];
        char text[PH__DESCRIBE];
        if (!x)
            continue;
        uint64_t now = ph_tensor_version(x);
        if (ph__tensor_is_overwritten(x))
            return fail_saved_overwritten(node, x);
        if (now == node->versions[i] || node->tape->recaptures)
            continue;
        ph_tape_fail(
            node->tape, PH_ERROR_STATE,
            "backward of %s: a value that it saved, %s, was changed in place: it has version %llu, "
            "and had %llu "
            "when it was saved; clone it before the change",
            node->name, ph__describe(text, x), (unsigned long long)now,
            (unsigned long long)node->versions[i]);
        return false;
    }
    return true;
}

static bool is_wide_edge(const ph__edge *edge)
{
    return edge->node && edge->node->wide;
}

static bool is_dtype_of(const ph__edge *edge, ph_dtype dtype)
{
    return dtype == edge->dtype || (dtype == PH_DTYPE_F32 && is_wide_edge(edge));
}

/* Summed over dimensions that were broadcast: a part of the node's work, in its scope. */
static ph_tensor *check_gradient(ph__pass *pass, const ph__node *node, size_t i, ph_tensor *grad)
{
    ph_tape *tape = pass->tape;
    const ph__edge *edge = ph__node_edge(node, i);
    char text[PH__DESCRIBE];
    ph_shape both;
    if (grad->gone) {
        ph_tape_check(tape, ph__quarantine_fail(grad, node->name, "a gradient that backward gave"));
        return NULL;
    }
    if (is_dtype_of(edge, grad->dtype) && ph_shape_equal(&grad->shape, &edge->shape) &&
        grad->storage->backend == tape->backend)
        return grad;
    if (!is_dtype_of(edge, grad->dtype) || grad->storage->backend != tape->backend ||
        !ph__shape_broadcast(&both, &grad->shape, &edge->shape) ||
        !ph_shape_equal(&both, &grad->shape)) {
        char want[PH__DESCRIBE];
        ph_tape_fail(
            tape, PH_ERROR_ARGUMENT,
            "backward of %s: it gave %s for operand %zu, whose gradient must be %s, or broadcast "
            "from it, of the tape's device",
            node->name, ph__describe(text, grad), i,
            ph__describe(want, &(ph_tensor){.dtype = edge->dtype, .shape = edge->shape}));
        return NULL;
    }
    return ph__pass_mark(pass, node->mark) ? ph__sum_to(tape, grad, &edge->shape) : NULL;
}

/* Gradients that nobody needs are forgotten; the others may be saved values, or gradients that came
 * in: they are held while those go. */
static void hold_gradients(ph__pass *pass, const ph__node *node)
{
    ph_tensor **const in_grads = pass->in_grads;
    for (size_t i = 0, count = node->in_count; i < count; i++)
        if (in_grads[i])
            in_grads[i] = pass->needed[i] ? ph_tensor_retain(in_grads[i]) : NULL;
}

/* Gradients of a kept cast's uses are summed in the weight's dtype, as those of casts of their
 * own would be. */
static ph_tensor *cast_as_summed(ph__pass *pass, const ph__edge *edge, ph_tensor *grad)
{
    if (!grad || !edge->node || !edge->node->shared)
        return grad;
    return ph__pass_mark(pass, edge->node->mark)
               ? ph_cast(pass->tape, grad, edge->node->edges[0].dtype)
               : NULL;
}

/* Sums are the pass's, and in no scope. */
static bool mark_sum(ph__pass *pass, const ph__edge *edge)
{
    return ph__pass_mark_own(pass, "sum", edge->node,
                             edge->node ? NULL : pass->slots.at[edge->slot].leaf);
}

static ph_tensor **sum_of_edge(ph__pass *pass, const ph__edge *edge)
{
    return edge->node ? &edge->node->pending[edge->output] : &pass->slots.at[edge->slot].grad;
}

/* The sum that backward may add to itself. */
static ph_tensor *open_sum(ph__pass *pass, const ph__edge *edge)
{
    ph_tensor *sum = *sum_of_edge(pass, edge);
    bool fits = sum && sum->dtype == edge->dtype && ph_shape_equal(&sum->shape, &edge->shape);
    return fits && ph__gradient_is_ours(sum) ? sum : NULL;
}

/* Takes over the reference to it. ok: all were routed so far. */
static __attribute__((noinline)) bool route_gradient(ph__pass *pass, const ph__node *node, size_t i,
                                                     bool ok)
{
    const ph__edge *edge = ph__node_edge(node, i);
    ph_tensor **sum = sum_of_edge(pass, edge);
    if (!pass->summed[i]) {
        ph_tensor *grad = ok ? check_gradient(pass, node, i, pass->in_grads[i]) : NULL;
        grad = cast_as_summed(pass, edge, grad);
        ok = grad && (!*sum || mark_sum(pass, edge)) && ph__gradient_add(pass->tape, sum, grad);
    }
    ph_tensor_release(pass->in_grads[i]);
    return ok;
}

/* Gradients of a callable's parameters went to the leaves already: most are NULL. */
static bool route_gradients(ph__pass *pass, const ph__node *node)
{
    ph_tensor *const *const in_grads = pass->in_grads;
    bool ok = true;
    for (size_t i = 0, count = node->in_count; i < count; i++)
        if (in_grads[i])
            ok = route_gradient(pass, node, i, ok);
    return ok;
}

static void release_pending(ph__node *node)
{
    for (size_t i = 0; i < node->out_count; i++) {
        ph_tensor *grad = node->pending[i];
        node->pending[i] = NULL;
        ph_tensor_release(grad);
    }
}

/* The second run of a checkpointed function is in the scope that the function was called in. */
static bool fill_node(ph__pass *pass, ph__node *node)
{
    return ph__pass_mark(pass, NULL) && ph__region_fill(pass->tape, node) &&
           ph__pass_mark(pass, node->mark);
}

static void read_edge(ph__pass *pass, size_t i, const ph__edge *edge)
{
    const bool needed = ph__pass_needs(pass, edge);
    ph__gradient_slot *slot = needed && edge->leaf ? &pass->slots.at[edge->slot] : NULL;
    pass->in_grads[i] = NULL;
    pass->summed[i] = false;
    pass->needed[i] = needed;
    pass->leaves[i] = slot ? edge->leaf : NULL;
    pass->sole[i] = slot && slot->uses == 1;
    pass->wide[i] = needed && is_wide_edge(edge);
    pass->sums[i] = needed && !(slot && !slot->grad) ? open_sum(pass, edge) : NULL;
}

/* The same for edges to leaves, from that operand on. A callable has one for each parameter: nearly
 * all are needed, and have no sum yet. */
static void read_leaf_edges(ph__pass *pass, size_t from, const ph__leaf_edges *leaf_edges)
{
    ph_tensor **const in_grads = pass->in_grads + from, **const leaves = pass->leaves + from,
                      **const sums = pass->sums + from;
    bool *const needed = pass->needed + from, *const sole = pass->sole + from,
                *const summed = pass->summed + from, *const wide = pass->wide + from;
    const ph__edge *edge = leaf_edges->at;
    ph__gradient_slot *const slots = pass->slots.at;
    for (size_t i = 0, count = leaf_edges->count; i < count; i++, edge++) {
        ph__gradient_slot *slot =
            edge->leaf && edge->slot != PH__NO_SLOT ? &slots[edge->slot] : NULL;
        in_grads[i] = NULL;
        summed[i] = wide[i] = false;
        needed[i] = slot != NULL;
        leaves[i] = slot ? edge->leaf : NULL;
        sole[i] = slot && slot->uses == 1;
        sums[i] = slot && slot->grad ? open_sum(pass, edge) : NULL;
    }
}

static void read_edges(ph__pass *pass, const ph__node *node)
{
    for (size_t i = 0; i < node->own_count; i++)
        read_edge(pass, i, &node->edges[i]);
    if (node->leaf_edges)
        read_leaf_edges(pass, node->own_count, node->leaf_edges);
}

static bool run_node(ph__pass *pass, ph__node *node)
{
    ph_tape *tape = pass->tape;
    if (node->released)
        return fail_released(node);
    if (!node->filled && !fill_node(pass, node))
        return false;
    if (!check_saved_versions(node))
        return false;
    read_edges(pass, node);
    ph__grad_call call = {.tape = tape,
                          .state = node->state,
                          .saved = node->saved,
                          .versions = node->versions,
                          .out_grads = node->pending,
                          .out_count = node->out_count,
                          .in_count = node->in_count,
                          .needed = pass->needed,
                          .wide = pass->wide,
                          .in_grads = pass->in_grads,
                          .sums = pass->sums,
                          .summed = pass->summed,
                          .accumulates = !pass->inputs,
                          .leaves = pass->leaves,
                          .sole = pass->sole};
    node->def->backward(&call);
    if (ph__tape_failed(tape))
        return false;
    hold_gradients(pass, node);
    if (!pass->retain)
        ph__node_consume(node);
    release_pending(node);
    return route_gradients(pass, node);
}

static bool run_node_hooks(ph_tape *tape, ph__node *node)
{
    for (uint32_t i = 0; i < node->out_count; i++) {
        if (!node->pending[i])
            continue;
        ph_tensor *grad = ph__tensor_hooks_run(tape, &node->hooks, i, node->pending[i]);
        ph_tensor_release(node->pending[i]);
        node->pending[i] = grad;
        if (!grad)
            return false;
    }
    return true;
}

static bool has_gradient(const ph__node *node)
{
    for (size_t i = 0; i < node->out_count; i++)
        if (node->pending[i])
            return true;
    return false;
}

bool ph__pass_visit(ph__pass *pass, ph__node *node)
{
    ph_tape *tape = pass->tape;
    if (!has_gradient(node))
        return true;
    if (!ph__pass_mark(pass, node->mark))
        return false;
    size_t mark = ph_tape_scope_begin(tape);
    bool ok = !node->hooks || run_node_hooks(tape, node);
    if (ok && node->captured)
        ph__pass_capture(pass, node);
    if (ok && ph__pass_runs(pass, node))
        ok = run_node(pass, node);
    ph_tape_scope_end(tape, mark, NULL, 0);
    return ok;
}

static bool finish_edges(ph__pass *pass, const ph__edge *edge, size_t count)
{
    for (const ph__edge *end = edge + count; edge < end; edge++)
        if (edge->leaf && edge->slot != PH__NO_SLOT && !ph__pass_count_down(pass, edge->slot))
            return false;
    return true;
}

bool ph__pass_finish_leaves(ph__pass *pass, const ph__node *node)
{
    if (!ph__pass_runs(pass, node))
        return true;
    return finish_edges(pass, node->edges, node->own_count) &&
           (!node->leaf_edges || finish_edges(pass, node->leaf_edges->at, node->leaf_edges->count));
}
