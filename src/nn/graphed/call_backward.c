/* SPDX-License-Identifier: MIT */
/* nn/graphed/call_backward.c: backward of a call: gradients are bound, the graph
 * replayed, and what it left handed on. */
#include "nn/graphed/call_backward.h"
#include "base/status.h"
#include "nn/graphed/bind.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/leaves.h"
#include "nn/graphed/others.h"
#include "nn/graphed/output_sets.h"
#include "nn/graphed/readers.h"
#include "nn/graphed/replay.h"
#include "nn/graphed/used.h"
#include "nn/graphed/watch.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/bundle.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/node.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"

#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COLD        __attribute__((cold, noinline))

/* The state of a call that backward needs. */
typedef struct called {
    ph__callable *callable; /* retained */
    uint64_t saved;         /* as the saved values were */
    uint64_t versions;      /* as those of what is exposed were */
    uint64_t call;
} called;

static COLD bool fail_saved_set_overwritten(ph_tape *tape, const ph__callable *callable,
                                            const called *state)
{
    char text[256];
    ph__overwrite_tag *tag = &callable->saved_set->overwrite_tag;
    tag->describe(tag, state->saved, state->call, text, sizeof text);
    ph_tape_fail(tape, PH_ERROR_OVERWRITTEN, "backward of the graphed callable '%s': it needs %s",
                 callable->original->name, text);
    return false;
}

static COLD void fail_exposed_changed(ph_tape *tape, const ph__callable *callable,
                                      const called *state)
{
    ph_tape_fail(tape, PH_ERROR_STATE,
                 "backward of the graphed callable '%s': an output of call %llu, or a buffer, that "
                 "it reads was "
                 "changed in place since that call; clone it before the change",
                 callable->original->name, (unsigned long long)state->call);
}

/* Parameters whose versions alone were saved. */
static COLD void fail_parameter_changed(const ph__grad_call *call, const ph__callable *callable,
                                        size_t i, size_t saved)
{
    char text[PH__DESCRIBE];
    const ph_tensor *x = ph__callable_parameters(callable)[i];
    ph_tape_fail(
        call->tape, PH_ERROR_STATE,
        "backward of %s: a value that it saved, %s, was changed in place: it has version %llu, "
        "and had %llu when it was saved; clone it before the change",
        callable->original->name, ph__describe(text, x), (unsigned long long)ph_tensor_version(x),
        (unsigned long long)call->versions[saved]);
}

static bool check_parameter_versions(const ph__grad_call *call, const ph__callable *callable)
{
    const ph__storage *const *storages = callable->saved_storages;
    for (size_t at = callable->saved_inputs; at < callable->saved_count; at++) {
        const ph__storage *storage = storages[at - callable->saved_inputs];
        if (UNLIKELY(!call->saved[at] &&
                     atomic_load_explicit(&storage->version, memory_order_relaxed) !=
                         call->versions[at])) {
            fail_parameter_changed(call, callable,
                                   callable->saved_parameters[at - callable->saved_inputs], at);
            return false;
        }
    }
    return true;
}

static bool bind_grad_outputs(const ph__grad_call *call, ph__callable *callable, size_t *values)
{
    ph_tape *tape = call->tape;
    for (size_t i = 0; i < callable->out_count; i++) {
        ph__binding *binding = &callable->grad_outputs[i];
        if (!binding->used)
            continue;
        ph_tensor *grad = call->out_grads[i];
        if (ph__tensor_is_overwritten(grad)) {
            ph__callable_fail_grad_overwritten(tape, callable, i, grad);
            return false;
        }
        ph__callable_warn_overwritten(callable, binding, grad, PH__BINDING_GRAD_OUTPUT);
        grad = ph__callable_bind_tensor(tape, callable, &callable->backward, binding, binding->slot,
                                        grad);
        if (ph__tape_failed(tape))
            return false;
        ph_tape_check(tape, ph__storage_use(grad->storage, tape->stream, tape->key));
        ph__replay_set(callable, values, binding->slot, grad->data);
    }
    return !ph__tape_failed(tape);
}

/* The inputs that the callable's own backward reads were saved; backward of other outputs copies
 * what it reads of them. */
static void bind_saved(const ph__grad_call *call, ph__callable *callable, ph__callable *used,
                       size_t *values)
{
    size_t saved = 0;
    for (size_t i = 0; i < callable->in_count; i++) {
        const ph__binding *binding = &callable->inputs[i];
        if (!binding->rebound || binding->backward_slot == PH_SLOT_NONE)
            continue;
        const ph_tensor *x = call->saved[saved++];
        ph__callable_warn_overwritten(callable, &callable->inputs[i], x, PH__BINDING_SAVED);
        ph__replay_set(used, values,
                       used == callable ? binding->backward_slot : used->inputs[i].slot, x->data);
    }
}

/* The graph's last node adds to a leaf's own gradient, or makes it, where nothing else is to see
 * it first. */
static ph_tensor *leaf_gradient(const ph__grad_call *call, ph__callable *callable, size_t at,
                                ph__bundle_op *op)
{
    ph__grad_input *grad_input = &callable->grad_inputs[at];
    size_t i = grad_input->operand;
    ph_tensor *leaf = ph__grad_input_leaf(call, grad_input);
    if (!leaf)
        return NULL;
    ph_tensor *grad = leaf->leaf->grad;
    if (!grad && call->sole[i]) {
        *op = PH__BUNDLE_COPY;
        grad_input->fresh_of = leaf;
        return grad_input->fresh = ph__callable_leaf_gradient(call, callable, at, leaf);
    }
    if (!ph__grad_input_may_add(callable, leaf) || !grad_input->apart)
        return NULL;
    *op = PH__BUNDLE_ADD;
    ph__storage_changed(grad->storage, 0, 0);
    ph_tape_check(call->tape, ph__storage_use(grad->storage, call->tape->stream, call->tape->key));
    return grad;
}

/* Gradients that were made for leaves are theirs once they are written. */
static void finish_leaves(ph__callable *callable, bool written)
{
    for (size_t i = 0; i < callable->grad_input_count; i++) {
        ph__grad_input *grad_input = &callable->grad_inputs[i];
        if (!grad_input->fresh)
            continue;
        if (written)
            grad_input->fresh_of->leaf->grad = grad_input->fresh;
        else
            ph_tensor_release(grad_input->fresh);
        grad_input->fresh = grad_input->fresh_of = NULL;
    }
}

/* A tensor of the pass's, which adds it to what is there. */
static __attribute__((noinline)) ph_tensor *pass_gradient(const ph__grad_call *call,
                                                          ph__callable *callable, size_t at)
{
    const size_t operand = callable->grad_inputs[at].operand;
    const ph_tensor *like = callable->operands[operand];
    const ph__binding *binding = operand < callable->in_count ? &callable->inputs[operand] : NULL;
    ph_tensor *to = NULL;
    if (ph__tape_failed(call->tape))
        return NULL;
    to = ph__callable_gradient(call, callable, at, binding ? binding->dtype : like->dtype,
                               binding ? &binding->shape : &like->shape);
    if (to && !ph__tape_own(call->tape, to))
        to = NULL;
    return call->in_grads[operand] = to;
}

static inline void bind_grad_input(const ph__grad_call *call, ph__callable *callable, size_t at,
                                   size_t *values)
{
    const ph__grad_input *grad_input = &callable->grad_inputs[at];
    ph__bundle_op op = PH__BUNDLE_COPY;
    ph_tensor *to = leaf_gradient(call, callable, at, &op);
    if (!to) {
        op = PH__BUNDLE_COPY;
        to = pass_gradient(call, callable, at);
    }
    callable->ops[grad_input->op_at] = (uint8_t)op;
    if (to)
        ph__replay_set(callable, values, grad_input->slot, to->data);
}

static bool bind_grad_inputs(const ph__grad_call *call, ph__callable *callable, size_t *values)
{
    size_t count = *values;
    if (callable->set->options.gradients == PH_GRAPHED_BORROW)
        return true;
    if (!ph__callable_find_leaf_grads(call, callable))
        return false;
    for (size_t i = 0; i < callable->grad_input_count; i++) {
        ph__grad_input *grad_input = &callable->grad_inputs[i];
        if (call->needed[grad_input->operand]) {
            bind_grad_input(call, callable, i, &count);
            continue;
        }
        callable->ops[grad_input->op_at] = PH__BUNDLE_SKIP;
        if (grad_input->idle)
            ph__replay_set(callable, &count, grad_input->slot, grad_input->idle);
    }
    for (size_t i = 0; i < callable->op_slot_count; i++)
        ph__replay_set(callable, &count, callable->op_slots[i], callable->ops + i * PH__BUNDLE_MAX);
    *values = count;
    return !ph__tape_failed(call->tape);
}

static bool lend_gradients(const ph__grad_call *call, ph__callable *callable, uint64_t now)
{
    for (size_t i = 0; callable->grad_set && i < callable->grad_input_count; i++) {
        const ph__grad_input *grad_input = &callable->grad_inputs[i];
        const ph_tensor *grad = grad_input->grad;
        if (!call->needed[grad_input->operand])
            continue;
        ph_tensor *alias =
            ph__tensor_make(grad->storage, grad->dtype, &grad->shape, grad->stride,
                            grad->count ? (size_t)(grad->data - grad->storage->data) : 0);
        if (!alias) {
            ph__tape_fail_host_memory(call->tape, callable->original->name, "a gradient");
            return false;
        }
        ph__tensor_tag(alias, &callable->grad_set->overwrite_tag, now, callable->backward.calls);
        ph_tape_check(call->tape,
                      ph__storage_use(grad->storage, call->tape->stream, call->tape->key));
        ph_tensor *leaf = ph__grad_input_leaf(call, grad_input);
        if (leaf && !leaf->leaf->grad && call->sole[grad_input->operand])
            leaf->leaf->grad = alias;
        else if (ph__tape_own(call->tape, alias))
            call->in_grads[grad_input->operand] = alias;
        else
            return false;
    }
    if (callable->grad_set)
        ph__readers_handed_out(&callable->backward, callable->grad_set);
    return !ph__tape_failed(call->tape);
}

/* Calls are counted in one row, whatever outputs they are for. */
static ph_status replay_backward(ph_tape *tape, ph__callable *callable, ph__callable *used,
                                 size_t values, uint64_t *number)
{
    if (used == callable)
        return ph__replay_run(tape, callable, &callable->backward, values, number);
    PH_TRY(ph__callable_use_stand_ins(callable, tape));
    used->backward.calls = callable->backward.calls;
    PH_TRY(ph__replay_run(tape, used, &used->backward, values, number));
    callable->backward.calls = used->backward.calls;
    return PH_OK;
}

/* Whether this call's graph can be replayed now. */
static bool check_call(ph_tape *tape, const ph__callable *callable, const called *state)
{
    const ph__callable_graph *running = ph__shared_pool_running(callable->set->shared);
    if (UNLIKELY(running != NULL)) {
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "backward of the graphed callable '%s': the function of a break of '%s' calls "
                     "it, and both share a pool: a replay would write what the later segments "
                     "read; call it before or after, or make it with another pool",
                     callable->original->name, running->name);
        return false;
    }
    if (UNLIKELY(ph__output_set_now(callable->saved_set) != state->saved) &&
        !fail_saved_set_overwritten(tape, callable, state))
        return false;
    if (UNLIKELY(ph__callable_versions(callable) != state->versions)) {
        fail_exposed_changed(tape, callable, state);
        return false;
    }
    if (UNLIKELY(ph_stream_is_capturing(tape->stream))) {
        ph_tape_fail(
            tape, PH_ERROR_CAPTURE,
            "backward of the graphed callable '%s': its forward was replayed before this capture "
            "began; call both inside of it",
            callable->original->name);
        return false;
    }
    return true;
}

static void graphed_backward(ph__grad_call *call)
{
    const called *state = call->state;
    ph__callable *callable = state->callable;
    ph_tape *tape = call->tape;
    size_t values = 0;
    uint64_t number = 0;
    if (!check_parameter_versions(call, callable) || !check_call(tape, callable, state))
        return;
    ph__callable *used = ph__callable_used(tape, callable, call->out_grads);
    if (!used || !bind_grad_outputs(call, used, &values))
        return;
    bind_saved(call, callable, used, &values);
    bool bound = bind_grad_inputs(call, used, &values);
    ph__callable_end_aside(tape, used);
    if (!bound || ph__tape_failed(tape)) {
        finish_leaves(used, false);
        return;
    }
    ph_status status = ph__replay_use_buffers(tape, used->grad_outputs, used->out_count);
    if (status == PH_OK)
        status = replay_backward(tape, callable, used, values, &number);
    finish_leaves(used, status == PH_OK);
    if (status != PH_OK) {
        ph__error_prefix("backward of the graphed callable '%s'", callable->original->name);
        ph_tape_check(tape, status);
        return;
    }
    if (callable->set->options.gradients == PH_GRAPHED_BORROW)
        lend_gradients(call, used, number);
}

static void release_called(void *state)
{
    ph__callable_release(((called *)state)->callable);
}

static const ph__grad_def graphed_grad = {.name = "graphed",
                                          .state_bytes = sizeof(called),
                                          .backward = graphed_backward,
                                          .release = release_called};

/* ---- forward ---- */
/* No host memory for edges that calls share: each call has its own. */
static called *track_call(ph__op *op, ph__callable *callable)
{
    if (callable->plain && !callable->leaf_edges)
        callable->leaf_edges = ph__op_leaf_edges(op->tape, ph__callable_parameters(callable),
                                                 callable->parameter_count);
    if (UNLIKELY(callable->plain && !callable->leaf_edges)) {
        callable->plain = false;
        callable->relied_at = 0;
    }
    return ph__op_track_leaves(op, &graphed_grad, callable->saved_count,
                               callable->plain ? callable->leaf_edges : NULL);
}

/* Of plain ones the versions: the callable holds them. */
static inline void save_parameters(ph__op *op, const ph__callable *callable, size_t first)
{
    const size_t count = callable->saved_count - first;
    uint64_t *versions = op->node->versions + first;
    for (size_t i = 0; callable->plain && i < count; i++)
        versions[i] =
            atomic_load_explicit(&callable->saved_storages[i]->version, memory_order_relaxed);
    for (size_t i = 0; !callable->plain && i < count; i++)
        ph__op_save(op, first + i,
                    ph__callable_parameters(callable)[callable->saved_parameters[i]]);
}

bool ph__graphed_remember(ph__op *op, ph__callable *callable, uint64_t number)
{
    called *state = track_call(op, callable);
    size_t saved = 0;
    if (!state)
        return false;
    ph__reference_give(&callable->references, &callable->ahead);
    *state = (called){callable, callable->keeps_saved ? number : 0, ph__callable_versions(callable),
                      callable->forward.calls};
    for (size_t i = 0; i < callable->in_count; i++)
        if (callable->inputs[i].rebound && callable->inputs[i].backward_slot != PH_SLOT_NONE)
            ph__op_save(op, saved++, op->in[i]);
    save_parameters(op, callable, saved);
    return true;
}
