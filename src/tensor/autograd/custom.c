/* SPDX-License-Identifier: MIT */
/* tensor/autograd/custom.c: operators of the user's, with a forward and a backward of their own. */
#include "base/status.h"
#include "base/unwind.h"
#include "tensor/autograd/marks.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/autocast.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include "tensor/tape/tape_state.h"

/* In forward it lies on the stack, and collects what is saved; in backward it is the state of
 * the node. */
struct ph_custom {
    ph_custom_operator op;
    ph_tape *tape;
    bool in_forward, has_saved;
    ph_tensor **collected; /* retained */
    ph_tensor *const *saved;
    size_t saved_count;
};

void *ph_custom_user(const ph_custom *custom)
{
    return custom ? custom->op.user : NULL;
}

void ph_custom_save(ph_custom *custom, ph_tensor *const *tensors, size_t count)
{
    if (!custom || ph__tape_failed(custom->tape))
        return;
    const char *name = custom->op.name;
    if (!custom->in_forward || custom->has_saved) {
        ph_tape_fail(custom->tape, PH_ERROR_STATE, "%s: ph_custom_save is for forward, and once",
                     name);
        return;
    }
    if (!tensors && count > 0) {
        ph_tape_fail(custom->tape, PH_ERROR_ARGUMENT,
                     "%s: ph_custom_save: tensors is NULL, and must not be", name);
        return;
    }
    for (size_t i = 0; i < count && !ph__tape_failed(custom->tape); i++)
        ph_tape_check(custom->tape, ph__tensor_check_there(tensors[i], name, "a tensor to save"));
    if (ph__tape_failed(custom->tape))
        return;
    custom->collected = ph__calloc(count, sizeof *custom->collected);
    if (!custom->collected) {
        ph__tape_fail_host_memory(custom->tape, name, "what it saves");
        return;
    }
    for (size_t i = 0; i < count; i++)
        custom->collected[i] = ph_tensor_retain(tensors[i]);
    custom->saved_count = count;
    custom->has_saved = true;
}

ph_tensor *ph_custom_saved(ph_custom *custom, size_t index)
{
    return custom && custom->saved && index < custom->saved_count ? custom->saved[index] : NULL;
}

static void drop_collected(ph_custom *custom)
{
    for (size_t i = 0; custom->collected && i < custom->saved_count; i++)
        ph_tensor_release(custom->collected[i]);
    ph__free(custom->collected);
    custom->collected = NULL;
}

/* Only the operator knows how its kernels use the tensors that it gets: in a capture the graph
 * needs them. A stand-in for other memory is no input: a replay has its own, where a kernel reads
 * it. */
static bool declare_tensor_uses(const ph_custom *custom, ph_tensor *const *tensors, size_t count)
{
    ph_tape *tape = custom->tape;
    for (size_t i = 0; i < count; i++)
        if (tensors[i] && tensors[i]->count > 0 && !tensors[i]->storage->stands_in)
            ph_tape_check(tape,
                          ph_stream_declare_use(tape->stream, tensors[i]->data, custom->op.name));
    return !ph__tape_failed(tape);
}

/* ---- history ---- */
static void custom_backward(ph__grad_call *call)
{
    ph_custom *custom = call->state;
    if (!declare_tensor_uses(custom, call->saved, custom->saved_count) ||
        !declare_tensor_uses(custom, call->out_grads, call->out_count))
        return;
    custom->saved = call->saved;
    ph_autocast autocast = call->tape->autocast;
    custom->op.backward(custom, call->tape, call->in_grads, call->out_grads, call->needed);
    ph__autocast_restore(call->tape, autocast);
    custom->saved = NULL;
}

static void release_user(void *state)
{
    const ph_custom *custom = state;
    if (custom->op.release)
        custom->op.release(custom->op.user);
}

static const ph__grad_def custom_grad = {.name = "custom",
                                         .state_bytes = sizeof(ph_custom),
                                         .backward = custom_backward,
                                         .release = release_user};

/* Outputs get handles of their own: what forward gave may be an operand, or something older. */
static bool remember_custom(ph__op *op, const ph_custom *custom, ph_tensor **out, size_t out_count)
{
    for (size_t i = 0; i < out_count; i++) {
        out[i] = ph__op_view(op, out[i], &out[i]->shape, out[i]->stride, 0);
        if (!out[i])
            return false;
    }
    ph_custom *state = ph__op_track(op, &custom_grad, custom->saved_count);
    if (!state)
        return false;
    *state =
        (ph_custom){.op = custom->op, .tape = custom->tape, .saved_count = custom->saved_count};
    for (size_t i = 0; i < custom->saved_count; i++)
        ph__op_save(op, i, custom->collected[i]);
    return true;
}

/* ---- calling ---- */
static bool check_operator(ph__op *op, const ph_custom_operator *custom, ph_tensor *const *out,
                           size_t out_count)
{
    if (!custom->forward || !custom->backward)
        return ph__op_fail(op, PH_ERROR_ARGUMENT, "a custom operator needs forward and backward");
    if (!PH__RESERVED_OK(custom))
        return ph__op_fail(op, PH_ERROR_ARGUMENT, "a reserved word of ph_custom_operator is not 0");
    if (out_count == 0 || !out)
        return ph__op_fail(op, PH_ERROR_ARGUMENT, "a custom operator has at least one output");
    return true;
}

static bool run_custom_forward(ph__op *op, ph_custom *custom, ph_tensor **out, size_t out_count)
{
    ph_tape *tape = op->tape;
    if (!declare_tensor_uses(custom, op->in, op->in_count))
        return false;
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    ph_autocast autocast = tape->autocast;
    size_t depth = ph_annotation_depth();
    custom->in_forward = true;
    tape->callbacks++;
    custom->op.forward(custom, tape, out, op->in);
    tape->callbacks--;
    ph__tape_unwind_marks(tape, depth);
    custom->in_forward = false;
    ph__autocast_restore(tape, autocast);
    ph_tape_set_grad_enabled(tape, enabled);
    for (size_t i = 0; i < out_count && !ph__tape_failed(tape); i++) {
        if (!out[i])
            ph__op_fail(op, PH_ERROR_CALLER, "forward gave no output %zu", i);
        else if (out[i]->gone)
            ph_tape_check(tape, ph__quarantine_fail(out[i], op->name, "an output of forward"));
        else if (out[i]->storage->backend != tape->backend)
            ph__op_fail(op, PH_ERROR_WRONG_DEVICE,
                        "forward gave output %zu on another device than the tape's", i);
    }
    return !ph__tape_failed(tape);
}

/* True: the history has the user now, and releases it. */
static bool call_tracked(ph__op *op, ph_custom *custom, ph_tensor **out, size_t out_count)
{
    bool kept = false;
    if (run_custom_forward(op, custom, out, out_count) && op->tracked)
        kept = remember_custom(op, custom, out, out_count);
    drop_collected(custom);
    ph__op_done_n(op, out, out_count);
    return kept;
}

typedef struct calling {
    ph__tape_state state;
    ph_custom *custom;
} calling;

static void abandon_custom(void *what)
{
    const calling *c = what;
    ph__tape_state_left(&c->state);
    drop_collected(c->custom);
    release_user(c->custom);
}

void ph_custom_call(ph_tape *tape, const ph_custom_operator *op, ph_tensor **out, size_t out_count,
                    ph_tensor *const *in, size_t in_count)
{
    ph__op begun;
    bool kept = false;
    for (size_t i = 0; out && i < out_count; i++)
        out[i] = NULL;
    if (!op) {
        if (tape)
            ph_tape_fail(tape, PH_ERROR_ARGUMENT, "ph_custom_call: op is NULL, and must not be");
        return;
    }
    ph_custom custom = {.op = *op, .tape = tape};
    if (!custom.op.name)
        custom.op.name = "custom";
    if (ph__op_begin(&begun, tape, custom.op.name, in, in ? in_count : 0, 0) &&
        check_operator(&begun, op, out, out_count)) {
        calling c = {.custom = &custom};
        ph__tape_state_begin(&c.state, tape, custom.op.name);
        PH__UNWIND unwind = {abandon_custom, &c};
        size_t depth = tape->depth++;
        kept = call_tracked(&begun, &custom, out, out_count);
        tape->depth = depth;
        unwind.undo = NULL;
    }
    if (!kept)
        release_user(&custom);
}
