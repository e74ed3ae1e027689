/* SPDX-License-Identifier: MIT */
/* nn/graphed/others.c: what a callable keeps for other backwards: those that were captured, and the
 * memory that stands for inputs in them. */
#include "nn/graphed/others.h"
#include "base/alloc.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/output_sets.h"
#include "tensor/tape/tape.h"

void ph__callable_drop_stand_ins(ph__callable *callable)
{
    for (size_t i = 0; callable->stand_ins && i < callable->in_count; i++)
        ph_tensor_release(callable->stand_ins[i]);
    ph__free(callable->stand_ins);
    ph_free(callable->stand_block, callable->set->stream);
    callable->stand_ins = NULL;
    callable->stand_block = NULL;
}

ph_status ph__callable_use_stand_ins(ph__callable *callable, const ph_tape *tape)
{
    if (!callable->stand_block || callable->stand_key == ph__tape_key(tape))
        return PH_OK;
    PH_TRY(ph_record_stream(callable->stand_block, tape->stream));
    callable->stand_key = ph__tape_key(tape);
    return PH_OK;
}

void ph__callable_drop_other(ph__callable *other)
{
    if (!other)
        return;
    ph__callable_graph_leave(&other->backward, other->set->shared);
    ph_graph_destroy(other->backward.graph);
    ph__output_set_release(other->grad_set);
    for (size_t i = 0; i < other->grad_input_count; i++)
        ph_tensor_release(other->grad_inputs[i].grad);
    for (size_t i = 0; other->grad_outputs && i < other->out_count; i++)
        ph_tensor_release(other->grad_outputs[i].buffer);
    ph__free(other->inputs);
    ph__free(other->grad_outputs);
    ph__free(other->grad_inputs);
    ph__free(other->grad_input_order);
    ph__free(other->ops);
    ph__free(other->op_slots);
    ph__ranges_free(&other->backward.touched);
    ph_free(other->outgoing, other->set->stream);
    ph_pool_release(other->aside);
    ph__free(other);
}

void ph__callable_drop_others(ph__callable *callable)
{
    while (callable->others) {
        ph__callable *other = callable->others;
        callable->others = other->next;
        ph__callable_drop_other(other);
    }
    callable->other_count = 0;
}
