/* SPDX-License-Identifier: MIT */
/* nn/graphed/callable.c: callables and their sets: who keeps them, and what goes with them. */
#include "nn/graphed/callable.h"
#include "base/alloc.h"
#include "base/line.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/others.h"
#include "nn/graphed/output_sets.h"
#include "nn/graphed/replay.h"
#include "nn/graphed/structure.h"
#include "nn/graphed/watch.h"
#include "nn/module/parameter_slots.h"
#include "nn/module/traverse.h"
#include "tensor/core/storage.h"
#include "tensor/tape/node.h"

void ph__graphed_set_release(ph__graphed_set *set)
{
    if (!set || !ph__drop_reference(&set->references))
        return;
    ph_tape_destroy(set->tape);
    ph_memory_plan_destroy(set->plan);
    ph__shared_pool_release(set->shared);
    ph_pool_release(set->pool);
    ph_device_release(set->device);
    ph__free(set);
}

ph__callable *ph__callable_retain(ph__callable *callable)
{
    atomic_fetch_add_explicit(&callable->references, 1, memory_order_relaxed);
    return callable;
}

static void return_output_references(ph__callable *callable)
{
    for (size_t i = 0; callable->outputs && i < callable->out_count; i++)
        if (callable->outputs[i])
            ph__references_return(&callable->outputs[i]->storage->references,
                                  &callable->outputs_ahead[i]);
    if (callable->out_set)
        ph__references_return(&callable->out_set->overwrite_tag.references,
                              &callable->out_set_ahead);
}

static void release_buffer(ph__binding *binding)
{
    ph_tensor_release(binding->buffer);
    binding->buffer = NULL;
    binding->untouched[0] = binding->untouched[1] = NULL;
}

void ph__callable_reset(ph__callable *callable)
{
    ph__callable_drop_others(callable);
    ph__callable_graph_leave(&callable->forward, callable->set->shared);
    ph__callable_graph_leave(&callable->backward, callable->set->shared);
    ph__callable_graph_unwatch(&callable->forward);
    ph__callable_graph_unwatch(&callable->backward);
    ph_graph_destroy(callable->forward.graph);
    ph_graph_destroy(callable->backward.graph);
    callable->forward.graph = callable->forward.first = callable->backward.graph = NULL;
    return_output_references(callable);
    ph__output_set_release(callable->out_set);
    ph__output_set_release(callable->saved_set);
    ph__output_set_release(callable->grad_set);
    callable->out_set = callable->saved_set = callable->grad_set = NULL;
    for (size_t i = 0; i < callable->grad_input_count; i++)
        ph_tensor_release(callable->grad_inputs[i].grad);
    callable->grad_input_count = callable->op_slot_count = callable->saved_count = 0;
    for (size_t i = 0; callable->outputs && i < callable->out_count; i++) {
        ph_tensor_release(callable->outputs[i]);
        callable->outputs[i] = NULL;
    }
    for (size_t i = 0; callable->inputs && i < callable->in_count; i++)
        release_buffer(&callable->inputs[i]);
    for (size_t i = 0; callable->grad_outputs && i < callable->out_count; i++)
        release_buffer(&callable->grad_outputs[i]);
    ph__storages_free(&callable->changed);
    ph__storages_free(&callable->exposed);
    ph__callable_drop_stand_ins(callable);
    ph__storages_free(&callable->held);
    ph_free(callable->outgoing, callable->set->stream);
    callable->outgoing = NULL;
    ph__ranges_free(&callable->forward.touched);
    ph__ranges_free(&callable->backward.touched);
    callable->differentiable = false;
}

void ph__callable_end(ph__callable *callable)
{
    ph__references_return(&callable->references, &callable->ahead);
    ph__callable_release(callable);
}

void ph__callable_release(ph__callable *callable)
{
    if (!callable || !ph__drop_reference(&callable->references))
        return;
    ph__callable_reset(callable);
    for (size_t i = 0; callable->operands && i < callable->parameter_count; i++)
        ph_tensor_release(ph__callable_parameters(callable)[i]);
    ph__structure_free(callable->structure);
    ph__structure_free(callable->out_structure);
    ph__free(callable->inputs);
    ph__free(callable->grad_outputs);
    ph__free(callable->outputs);
    ph__free(callable->outputs_ahead);
    ph__free(callable->operands);
    ph__leaf_edges_end(callable->leaf_edges);
    ph__free(callable->parameter_data);
    ph__free(callable->parameter_grads);
    ph__parameter_slots_drop(&callable->parameter_slots);
    ph__free(callable->modes);
    ph__free(callable->parameter_saved);
    ph__free(callable->saved_parameters);
    ph__free(callable->saved_storages);
    ph__free(callable->grad_inputs);
    ph__free(callable->grad_input_order);
    ph__free(callable->ops);
    ph__free(callable->op_slots);
    ph__free(callable->values);
    ph_pool_release(callable->aside);
    ph__free(callable->depends);
    ph_module_release(callable->original);
    ph__graphed_set_release(callable->set);
    ph__free(callable);
}

/* ---- names of parameters ---- for messages alone: so they are looked for when one needs them. */
typedef struct naming {
    char *room;
    size_t size, left;
} naming;

static bool name_entry(const ph__entry *entry, void *user)
{
    naming *n = user;
    if (!entry->tensor || entry->buffer || n->left-- > 0)
        return true;
    const char *name = ph__entry_name(entry);
    if (name)
        ph__line_format(n->room, n->size, "%s", name);
    return false;
}

const char *ph__callable_parameter_name(char *room, size_t size, const ph__callable *callable,
                                        size_t parameter)
{
    naming n = {room, size, parameter};
    ph__line_format(room, size, "%zu", parameter); /* where there is no memory for its name */
    (void)ph__module_walk(callable->original, name_entry, &n);
    return room;
}
