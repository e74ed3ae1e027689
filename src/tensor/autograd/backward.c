/* SPDX-License-Identifier: MIT */
/* tensor/autograd/backward.c: the backward pass: from outputs to leaves, newest node first,
 * freeing what it has used as it goes. */
#include "base/status.h"
#include "base/unwind.h"
#include "tensor/autograd/checkpoint.h"
#include "tensor/autograd/hooks_run.h"
#include "tensor/autograd/pass.h"
#include "tensor/core/describe.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/operators/reductions.h"
#include "tensor/tape/autocast.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/leaf.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include "tensor/tape/tape_state.h"
#include <stdio.h>

/* ---- nodes ---- */
static bool fail_released(const ph__node *node)
{
    ph_tape_fail(
        node->tape, PH_ERROR_STATE,
        "backward of %s: a second pass through it: what it had saved was released by the first; "
        "retain_graph of the first keeps it",
        node->name);
    return false;
}

static bool fail_overwritten(const ph__node *node, const ph_tensor *x)
{
    char call[96];
    (void)snprintf(call, sizeof call, "backward of %s", node->name);
    ph_tape_check(node->tape, ph__fail_overwritten(x, call, "a value that it saved"));
    return false;
}

static bool check_versions(const ph__node *node)
{
    for (size_t i = 0; i < node->saved_count; i++) {
        const ph_tensor *x = node->saved[i];
        uint64_t now = ph_tensor_version(x);
        char text[PH__DESCRIBE];
        if (x && ph__tensor_is_overwritten(x))
            return fail_overwritten(node, x);
        if (!x || now == node->versions[i] || node->tape->recaptures)
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

/* Summed over dimensions that were broadcast: a part of the node's work, in its scope. */
static ph_tensor *checked_grad(ph__pass *pass, const ph__node *node, size_t i, ph_tensor *grad)
{
    ph_tape *tape = pass->tape;
    const ph__edge *edge = &node->edges[i];
    char text[PH__DESCRIBE];
    ph_shape both;
    if (grad->gone) {
        ph_tape_check(tape, ph__quarantine_fail(grad, node->name, "a gradient that backward gave"));
        return NULL;
    }
    if (grad->dtype == edge->dtype && ph_shape_equal(&grad->shape, &edge->shape) &&
        grad->storage->backend == tape->backend)
        return grad;
    if (grad->dtype != edge->dtype || grad->storage->backend != tape->backend ||
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

/* Gradients that nobody needs are dropped. The others may be saved values, or gradients that came
 * in: they are held while those go. */
static void hold_gradients(ph__pass *pass, const ph__node *node)
{
    for (size_t i = 0; i < node->in_count; i++)
        pass->in_grads[i] = pass->needed[i] ? ph_tensor_retain(pass->in_grads[i]) : NULL;
}

/* Gradients of a kept cast's uses are summed in the weight's dtype, as those of casts of their
 * own would be. */
static ph_tensor *as_summed(ph__pass *pass, const ph__edge *edge, ph_tensor *grad)
{
    if (!grad || !edge->node || !edge->node->shared)
        return grad;
    return ph__pass_mark(pass, edge->node->mark)
               ? ph_cast(pass->tape, grad, edge->node->edges[0].dtype)
               : NULL;
}

/* Sums are the pass's, and in no scope. */
static bool route(ph__pass *pass, const ph__node *node)
{
    bool ok = true;
    for (size_t i = 0; i < node->in_count; i++) {
        const ph__edge *edge = &node->edges[i];
        if (!pass->in_grads[i])
            continue;
        ph_tensor **sum =
            edge->node ? &edge->node->pending[edge->output] : &pass->slots.at[edge->slot].grad;
        ph_tensor *grad = ok ? checked_grad(pass, node, i, pass->in_grads[i]) : NULL;
        grad = as_summed(pass, edge, grad);
        ok =
            grad && (!*sum || ph__pass_mark(pass, NULL)) && ph__gradient_add(pass->tape, sum, grad);
        ph_tensor_release(pass->in_grads[i]);
    }
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
static bool fill(ph__pass *pass, ph__node *node)
{
    return ph__pass_mark(pass, NULL) && ph__region_fill(pass->tape, node) &&
           ph__pass_mark(pass, node->mark);
}

static bool run_node(ph__pass *pass, ph__node *node)
{
    ph_tape *tape = pass->tape;
    if (node->released)
        return fail_released(node);
    if (!node->filled && !fill(pass, node))
        return false;
    if (!check_versions(node))
        return false;
    for (size_t i = 0; i < node->in_count; i++) {
        pass->in_grads[i] = NULL;
        pass->needed[i] = ph__pass_needs(pass, &node->edges[i]);
        pass->leaves[i] = pass->needed[i] ? node->edges[i].leaf : NULL;
        pass->sole[i] = pass->leaves[i] && pass->slots.at[node->edges[i].slot].uses == 1;
    }
    ph__grad_call call = {.tape = tape,
                          .state = node->state,
                          .saved = node->saved,
                          .out_grads = node->pending,
                          .out_count = node->out_count,
                          .in_count = node->in_count,
                          .needed = pass->needed,
                          .in_grads = pass->in_grads,
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
    return route(pass, node);
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

/* Tensors that the node makes go at the end of the visit; nodes that wait for them hold them. */
static bool visit(ph__pass *pass, ph__node *node)
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

/* Leaves of this node's, whether it ran or nothing came to it. */
static bool finish_leaves(ph__pass *pass, const ph__node *node)
{
    if (!ph__pass_runs(pass, node))
        return true;
    for (size_t i = 0; i < node->in_count; i++) {
        const ph__edge *edge = &node->edges[i];
        if (edge->leaf && edge->slot != PH__NO_SLOT && !ph__pass_count_down(pass, edge->slot))
            return false;
    }
    return true;
}

/* ---- the pass ---- */
static bool seed(ph__pass *pass, size_t i)
{
    ph_tape *tape = pass->tape;
    ph_tensor *x = pass->outputs[i];
    ph_tensor *grad = pass->grads ? pass->grads[i] : NULL;
    bool is_node = ph__node_is_alive(x->node);
    uint32_t slot = is_node ? 0 : ph__pass_slot(pass, x);
    if (slot == PH__NO_SLOT)
        return true;
    size_t mark = ph_tape_scope_begin(tape);
    if (!grad)
        grad = ph_full(tape, x->dtype, x->shape, 1.0);
    bool ok = grad &&
              ph__gradient_add(
                  tape, is_node ? &x->node->pending[x->output] : &pass->slots.at[slot].grad, grad);
    ph_tape_scope_end(tape, mark, NULL, 0);
    return ok && (is_node || ph__pass_count_down(pass, slot));
}

/* Gives how far it came: nodes from there on are done, and unmarked. */
static size_t walk(ph__pass *pass)
{
    ph_tape *tape = pass->tape;
    size_t i = pass->top;
    for (size_t k = 0; k < pass->output_count; k++)
        if (!seed(pass, k))
            return i;
    while (i > pass->floor) {
        ph__node *node = tape->nodes.at[i - 1];
        if (node->reached) {
            if (!visit(pass, node) || !finish_leaves(pass, node))
                return i;
        }
        if (node->region)
            ph__region_leave(tape, node, !pass->retain);
        if (node->reached || node->wanted || node->captured)
            ph__node_drop_pending(node);
        i--;
    }
    return i;
}

/* The tape is as it was before, but for what the pass used up, and its error. */
typedef struct passing {
    ph__tape_state state;
    ph__pass *pass;
} passing;

/* A function of the user's that the pass ran did not return. */
static void abandon(void *what)
{
    const passing *p = what;
    ph__pass_end_marks(p->pass);
    ph__pass_end(p->pass, p->pass->top);
    ph__tape_state_left(&p->state);
    for (size_t i = 0; p->pass->found && i < p->pass->input_count; i++)
        ph_tensor_release(p->pass->found[i]);
    ph__free(p->pass->found);
}

static void run(ph__pass *pass)
{
    ph_tape *tape = pass->tape;
    passing p = {.pass = pass};
    ph__tape_state_begin(&p.state, tape, pass->call);
    /* history holds the casts that it needs, and lets go of one after the other */
    ph__autocast_drop(tape);
    bool grad_enabled = ph_tape_set_grad_enabled(tape, false);
    ph_autocast autocast = tape->autocast;
    size_t floor = tape->floor, depth = tape->depth, mark = tape->owned_count;
    pass->depth = ph_annotation_depth();
    pass->floor = floor;
    pass->top = tape->nodes.count;
    tape->floor = pass->top;
    tape->autocast.dtype = 0;
    tape->callbacks++;
    size_t reached = pass->top;
    PH__UNWIND unwind = {abandon, &p};
    if (ph__pass_plan(pass))
        reached = walk(pass);
    unwind.undo = NULL;
    ph__pass_end_marks(pass);
    ph__pass_end(pass, reached);
    tape->callbacks--;
    tape->floor = floor;
    tape->depth = depth;
    tape->autocast = autocast;
    ph__tape_drop(tape, mark, NULL, 0);
    ph_tape_set_grad_enabled(tape, grad_enabled);
}

/* ---- what the caller gave ---- */
static bool fail_output(const ph__pass *pass, size_t i, ph_status status, const char *why)
{
    char text[PH__DESCRIBE];
    ph_tape_fail(pass->tape, status, "%s: output %zu (%s) %s", pass->call, i,
                 ph__describe(text, pass->outputs[i]), why);
    return false;
}

static bool check_output(const ph__pass *pass, size_t i)
{
    const ph_tensor *x = pass->outputs[i];
    const ph_tensor *grad = pass->grads ? pass->grads[i] : NULL;
    if (!x)
        return fail_output(pass, i, PH_ERROR_ARGUMENT, "must be a tensor");
    if (x->gone || (grad && grad->gone)) {
        ph_tape_check(pass->tape, ph__quarantine_fail(x->gone ? x : grad, pass->call,
                                                      x->gone ? "an output" : "a gradient"));
        return false;
    }
    if (!ph__needs_grad(x))
        return fail_output(
            pass, i, PH_ERROR_STATE,
            "requires no gradient: nothing that does went into it, or gradients were "
            "disabled, or its tape was cleared since; nor have gradients a history: there is "
            "no second derivative");
    if (ph__node_is_alive(x->node) && x->node->tape != pass->tape)
        return fail_output(pass, i, PH_ERROR_ARGUMENT, "has its history on another tape");
    if (x->storage->backend != pass->tape->backend)
        return fail_output(pass, i, PH_ERROR_WRONG_DEVICE, "is of another device than the tape");
    if (grad) {
        ph_status status = ph__tensor_check_grad(x, grad, pass->call);
        if (status == PH_OK && ph__tensor_is_overwritten(grad))
            status = ph__fail_overwritten(grad, pass->call, "a gradient that it begins with");
        ph_tape_check(pass->tape, status);
        return !ph__tape_failed(pass->tape);
    }
    if (x->count > 1)
        return fail_output(pass, i, PH_ERROR_ARGUMENT,
                           "has more than one element: it needs a gradient to begin with, or is to "
                           "be summed first");
    return true;
}

static bool check_pass_arguments(const ph__pass *pass, bool reserved_ok, const char *options)
{
    ph_tape *tape = pass->tape;
    if (ph__tape_failed(tape)) {
        ph__tape_skip(tape);
        return false;
    }
    if (tape->region) {
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "%s: called from inside a checkpointed function; call it outside", pass->call);
        return false;
    }
    if (!reserved_ok)
        ph_tape_check(tape, ph__fail_reserved(pass->call, options));
    else if (!pass->outputs && pass->output_count > 0)
        ph_tape_check(tape, ph__fail_null(pass->call, "outputs"));
    if (ph__tape_failed(tape))
        return false;
    for (size_t i = 0; i < pass->output_count; i++)
        if (!check_output(pass, i))
            return false;
    return true;
}

void ph_backward_from(ph_tape *tape, ph_tensor *const *outputs, ph_tensor *const *grads,
                      size_t count, const ph_backward_options *options)
{
    if (!tape)
        return;
    ph__pass pass = {.tape = tape,
                     .call = "backward",
                     .retain = options && options->retain_graph,
                     .outputs = outputs,
                     .grads = grads,
                     .output_count = count};
    if (check_pass_arguments(&pass, !options || PH__RESERVED_OK(options), "ph_backward_options"))
        run(&pass);
}

void ph_backward(ph_tape *tape, ph_tensor *loss)
{
    ph_backward_from(tape, &loss, NULL, 1, NULL);
}

/* ---- gradients that are asked for ---- */
/* Gives the results to the tape. Memory of which somebody else has a handle gets a handle of its
 * own. */
static void hand_over(ph__pass *pass, ph_tensor **out)
{
    ph_tape *tape = pass->tape;
    for (size_t i = 0; i < pass->input_count; i++) {
        ph_tensor *grad = pass->found[i];
        out[i] = NULL;
        if (!grad)
            continue;
        if (ph__tape_failed(tape) ||
            atomic_load_explicit(&grad->references, memory_order_relaxed) > 1) {
            out[i] = ph_detach(tape, grad);
            ph_tensor_release(grad);
        } else if (ph__tape_own(tape, grad)) {
            out[i] = grad;
        }
    }
}

static void check_found(const ph__pass *pass, bool allow_unused)
{
    for (size_t i = 0; i < pass->input_count && !allow_unused; i++)
        if (!pass->found[i])
            ph_tape_fail(
                pass->tape, PH_ERROR_ARGUMENT,
                "%s: nothing gave a gradient for input %zu; allow_unused gives NULL for it",
                pass->call, i);
}

void ph_grad(ph_tape *tape, ph_tensor **out, ph_tensor *const *inputs, size_t input_count,
             ph_tensor *const *outputs, ph_tensor *const *grads, size_t output_count,
             const ph_grad_options *options)
{
    for (size_t i = 0; out && i < input_count; i++)
        out[i] = NULL;
    if (!tape)
        return;
    ph__pass pass = {.tape = tape,
                     .call = "grad",
                     .retain = options && options->retain_graph,
                     .allow_unused = options && options->allow_unused,
                     .inputs = inputs,
                     .input_count = input_count,
                     .outputs = outputs,
                     .grads = grads,
                     .output_count = output_count};
    if (!check_pass_arguments(&pass, !options || PH__RESERVED_OK(options), "ph_grad_options"))
        return;
    if (!out || !inputs || input_count == 0) {
        ph_tape_fail(tape, PH_ERROR_ARGUMENT,
                     "grad: there must be inputs, and room for their gradients");
        return;
    }
    pass.found = ph__calloc(input_count, sizeof(ph_tensor *));
    if (!pass.found) {
        ph__tape_fail_host_memory(tape, pass.call, "gradients");
        return;
    }
    run(&pass);
    if (!ph__tape_failed(tape))
        check_found(&pass, pass.allow_unused);
    hand_over(&pass, out);
    if (ph__tape_failed(tape))
        for (size_t i = 0; i < input_count; i++)
            out[i] = NULL;
    ph__free(pass.found);
}
