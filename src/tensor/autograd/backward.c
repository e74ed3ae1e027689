/* SPDX-License-Identifier: MIT */
/* tensor/autograd/backward.c: the backward pass: from outputs to leaves, newest node first,
 * freeing what it has used as it goes. */
#include "base/status.h"
#include "base/unwind.h"
#include "tensor/autograd/backward_node.h"
#include "tensor/autograd/gradients.h"
#include "tensor/autograd/marks.h"
#include "tensor/autograd/pass.h"
#include "tensor/autograd/recompute.h"
#include "tensor/core/describe.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/autocast.h"
#include "tensor/tape/leaf.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include "tensor/tape/tape_state.h"
#include <stdio.h>

/* ---- the pass ---- */
static bool seed_output(ph__pass *pass, size_t i)
{
    ph_tape *tape = pass->tape;
    ph_tensor *x = pass->outputs[i];
    ph_tensor *grad = pass->grads ? pass->grads[i] : NULL;
    bool is_node = ph__node_is_alive(x->node);
    uint32_t slot = is_node ? 0 : ph__pass_slot(pass, x);
    if (slot == PH__NO_SLOT)
        return true;
    if (!grad && !ph__pass_mark_own(pass, "seed", is_node ? x->node : NULL, x))
        return false;
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
static size_t walk_nodes(ph__pass *pass)
{
    ph_tape *tape = pass->tape;
    size_t i = pass->top;
    for (size_t k = 0; k < pass->output_count; k++)
        if (!seed_output(pass, k))
            return i;
    while (i > pass->floor) {
        ph__node *node = tape->nodes.at[i - 1];
        if (node->reached) {
            if (!ph__pass_visit(pass, node) || !ph__pass_finish_leaves(pass, node))
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
static void abandon_pass(void *what)
{
    const passing *p = what;
    ph__pass_end_marks(p->pass);
    ph__pass_end(p->pass, p->pass->top);
    ph__tape_state_left(&p->state);
    for (size_t i = 0; p->pass->found && i < p->pass->input_count; i++)
        ph_tensor_release(p->pass->found[i]);
    ph__free(p->pass->found);
}

static void run_pass(ph__pass *pass)
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
    PH__UNWIND unwind = {abandon_pass, &p};
    if (ph__pass_plan(pass))
        reached = walk_nodes(pass);
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
        run_pass(&pass);
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
    run_pass(&pass);
    if (!ph__tape_failed(tape))
        check_found(&pass, pass.allow_unused);
    hand_over(&pass, out);
    if (ph__tape_failed(tape))
        for (size_t i = 0; i < input_count; i++)
            out[i] = NULL;
    ph__free(pass.found);
}
