/* SPDX-License-Identifier: MIT */
/* nn/graphed/call.c: forward of a graphed callable: inputs are bound, the graph replayed, and
 * its outputs handed out. */
#include "nn/graphed/call.h"
#include "nn/graphed/bind.h"
#include "nn/graphed/call_backward.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/check.h"
#include "nn/graphed/depends.h"
#include "nn/graphed/readers.h"
#include "nn/graphed/replay.h"
#include "nn/graphed/watch.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/storage.h"
#include "tensor/tape/node.h"
#include "tensor/tape/op.h"

#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COLD        __attribute__((cold, noinline))

/* Handles of this call on memory that is the graph's. */
static bool hand_out_outputs(ph__op *op, ph__callable *callable, ph_tensor **out, uint64_t number)
{
    for (size_t i = 0; i < callable->out_count; i++) {
        ph_tensor *x = callable->outputs[i];
        if (UNLIKELY(
                !ph__op_check(op, ph__storage_use(x->storage, op->tape->stream, op->tape->key))))
            return false;
        out[i] = ph__op_alias(op, x, &callable->outputs_ahead[i]);
        if (!out[i])
            return false;
        ph__tensor_tag_new(out[i], &callable->out_set->overwrite_tag, &callable->out_set_ahead,
                           number, callable->forward.calls);
    }
    ph__readers_handed_out(&callable->forward, callable->out_set);
    return true;
}

/* The operator gives history to all floating outputs; those that had none in the capture have none
 * here, nor have those that had it from inputs which require no gradient this time. */
static void strip_history(const ph__callable *callable, ph_tensor **out)
{
    for (size_t i = 0; i < callable->out_count; i++)
        if (out[i] && out[i]->node && !ph__callable_has_history(callable, i, callable->operands)) {
            ph__node_release(out[i]->node);
            out[i]->node = NULL;
        }
}

static bool submit_forward(ph__op *op, ph__callable *callable, uint64_t *number)
{
    size_t values = 0;
    for (size_t i = 0; i < callable->in_count; i++)
        ph__replay_set(callable, &values, callable->inputs[i].slot, op->in[i]->data);
    return ph__op_check(op,
                        ph__replay_use_buffers(op->tape, callable->inputs, callable->in_count)) &&
           ph__op_check(op, ph__replay_run(op->tape, callable, &callable->forward, values, number));
}

/* Plain parameters were checked with the call; a checkpointed function's are seen anew. */
static bool begin_graphed(ph__op *op, ph_tape *tape, const ph__callable *callable)
{
    size_t count = callable->in_count + callable->parameter_count;
    size_t checked = callable->plain && !tape->hollow ? callable->in_count : count;
    if (!ph__op_begin(op, tape, callable->original->name, callable->operands, checked, checked))
        return false;
    op->in_count = count;
    if (callable->plain)
        op->tracked = op->tracked || (tape->grad_enabled && callable->trains);
    return true;
}

static void run_graphed_forward(ph_tape *tape, ph__callable *callable, ph_tensor **out)
{
    ph__op op;
    uint64_t number = 0;
    if (!begin_graphed(&op, tape, callable) || !submit_forward(&op, callable, &number))
        return;
    ph__callable_count_changes(callable);
    if (!hand_out_outputs(&op, callable, out, number))
        return;
    if (op.tracked && callable->backward.graph && !ph__graphed_remember(&op, callable, number))
        return;
    if (ph__op_done_n(&op, out, callable->out_count) && op.node)
        strip_history(callable, out);
}

/* The function of a break calls it, of its own forward or of another one of the pool. */
static COLD void fail_in_break(ph_tape *tape, const ph__callable *callable)
{
    const ph__callable_graph *running = ph__shared_pool_running(callable->set->shared);
    ph_tape_fail(tape, PH_ERROR_STATE,
                 "graphed callable '%s': the function of a break of '%s' calls it, and both share "
                 "a pool: a replay would write what the later segments read; call it before or "
                 "after, or make it with another pool",
                 callable->original->name, running->name);
}

void ph__graphed_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    ph__callable *callable = self;
    if (UNLIKELY(!ph__callable_is_in_mode(callable) || ph_stream_is_capturing(tape->stream))) {
        ph_call_n(tape, callable->original, out, callable->out_count, in, callable->in_count);
        return;
    }
    if (UNLIKELY(ph__shared_pool_running(callable->set->shared) != NULL)) {
        fail_in_break(tape, callable);
        return;
    }
    if (ph__callable_check(tape, callable, in) && ph__callable_bind(tape, callable, in))
        run_graphed_forward(tape, callable, out);
}
