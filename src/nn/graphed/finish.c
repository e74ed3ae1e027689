/* SPDX-License-Identifier: MIT */
/* nn/graphed/finish.c: the captures of callables, one after the other, and what becomes theirs
 * of them. */
#include "nn/graphed/finish.h"
#include "base/alloc.h"
#include "base/line.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/capture.h"
#include "nn/graphed/depends.h"
#include "nn/graphed/output_sets.h"
#include "nn/graphed/outside.h"
#include "nn/graphed/prove.h"
#include "nn/graphed/stage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"
#include <stdlib.h>

/* ---- what the graphs leave ---- */
static ph_status add_range(ph__spans *ranges, const void *base, size_t bytes, const char *call)
{
    if (bytes == 0)
        return PH_OK;
    for (size_t i = 0; i < ranges->count; i += 2)
        if (ranges->at[i] == (uintptr_t)base)
            return PH_OK;
    if (!ph__vec_reserve(ranges, 2))
        return ph__fail_host_memory(call, "what a graph leaves");
    ranges->at[ranges->count++] = (uintptr_t)base;
    ranges->at[ranges->count++] = (uintptr_t)base + bytes;
    return PH_OK;
}

static ph_status add_tensor(ph__spans *ranges, const ph_tensor *x, const char *call)
{
    return x ? add_range(ranges, x->storage->data, x->storage->bytes, call) : PH_OK;
}

/* Allocations that words of backward's nodes lie in, of those that forward wrote. What backward was
 * given itself forward has let go. */
static ph_status add_saved(ph__spans *ranges, ph_graph *forward, ph_graph *backward,
                           const char *call)
{
    const ph_record *record;
    ph_node_info info;
    ph_word word;
    bool written, own;
    PH_TRY(ph_graph_record(&record, backward));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        PH_TRY(ph_record_node(&info, record, i));
        for (size_t k = 0; k < info.word_count; k++) {
            PH_TRY(ph_record_word(&word, record, i, k));
            if (word.kind == PH_WORD_VALUE || !word.base)
                continue;
            PH_TRY(ph_graph_writes(&written, forward, (const void *)(uintptr_t)word.value, 1));
            PH_TRY(ph_graph_writes(&own, backward, (const void *)(uintptr_t)word.value, 1));
            if (written && !own)
                PH_TRY(add_range(ranges, word.base, word.allocation_bytes, call));
        }
    }
    return PH_OK;
}

/* Borrowed gradients: nothing where there are none. */
static ph_status make_grad_set(ph__callable *callable, const char *call)
{
    ph__spans ranges = {0};
    ph_status status = PH_OK;
    if (!callable->backward.graph || callable->set->options.gradients != PH_GRAPHED_BORROW)
        return PH_OK;
    for (size_t i = 0; status == PH_OK && i < callable->grad_input_count; i++)
        status = add_tensor(&ranges, callable->grad_inputs[i].grad, call);
    if (status == PH_OK)
        status = ph__output_set_make(
            &callable->grad_set, callable->set->shared, callable->original->name, "a gradient",
            "drop gradients before each backward (ph_module_zero_grad), or "
            "have new ones (PH_GRAPHED_COPY)",
            &ranges, call);
    ph__vec_free(&ranges);
    return status;
}

static ph_status make_output_set(ph__making *making, const char *call)
{
    ph__callable *callable = making->callable;
    ph__shared_pool *shared = callable->set->shared;
    const char *name = callable->original->name;
    ph__spans ranges = {0};
    ph_status status = PH_OK;
    for (size_t i = 0; status == PH_OK && i < callable->out_count; i++)
        status = add_tensor(&ranges, callable->outputs[i], call);
    if (status == PH_OK)
        status = ph__output_set_make(&callable->out_set, shared, name, "an output",
                                     "clone what must live longer", &ranges, call);
    if (status == PH_OK && callable->backward.graph)
        status = add_saved(&ranges, callable->forward.graph, callable->backward.graph, call);
    callable->saved_bytes = 0;
    for (size_t i = 0; i < ranges.count; i += 2)
        callable->saved_bytes += ranges.at[i + 1] - ranges.at[i];
    if (status == PH_OK && callable->backward.graph)
        status = ph__output_set_make(
            &callable->saved_set, shared, name, "the saved values",
            "call backward before the next forward, or make a callable for each", &ranges, call);
    ph__vec_free(&ranges);
    return status == PH_OK ? make_grad_set(callable, call) : status;
}

static void take_backward(ph__making *making)
{
    ph__callable *callable = making->callable;
    ph__trial *real = &making->real;
    callable->backward.graph = real->backward;
    real->backward = NULL;
    bool borrowed = callable->set->options.gradients == PH_GRAPHED_BORROW;
    for (size_t i = 0; i < real->grad_input_count; i++) {
        callable->grad_inputs[i] = real->grad_inputs[i];
        if (borrowed)
            real->grad_inputs[i].grad = NULL;
        else
            callable->grad_inputs[i].grad = NULL; /* backward's last node has read it by then */
        if (!borrowed && callable->set->options.check_input_liveness)
            callable->grad_inputs[i].idle = making->outgoing.at[real->grad_inputs[i].operand].base;
    }
    if (callable->set->options.check_input_liveness) {
        callable->outgoing = making->outgoing.block;
        making->outgoing.block = NULL;
    }
    callable->grad_input_count = real->grad_input_count;
}

static void take_over(ph__making *making)
{
    ph__callable *callable = making->callable;
    ph__trial *real = &making->real;
    callable->forward.graph = real->forward;
    real->forward = NULL;
    for (size_t i = 0; i < callable->out_count; i++) {
        callable->outputs[i] = real->out[i];
        real->out[i] = NULL;
    }
    take_backward(making);
    callable->saved_count = 0;
    for (size_t i = 0; i < callable->in_count; i++)
        callable->saved_count +=
            callable->inputs[i].rebound && callable->inputs[i].backward_slot != PH_SLOT_NONE;
    for (size_t i = 0; i < callable->parameter_count; i++)
        callable->saved_count += callable->parameter_saved[i];
}

/* Whether a forward writes what the backward of an earlier one may need: memory of the graph,
 * the buffers of copied inputs, what the module itself changes. Otherwise backward reads the
 * call's own inputs alone, which are kept for it. */
static bool keeps_saved(const ph__callable *callable)
{
    bool copies = callable->saved_set->range_count > 0 || callable->changed.count > 0;
    for (size_t i = 0; i < callable->in_count && !copies; i++)
        copies = !callable->inputs[i].rebound;
    return copies;
}

static ph_status join_backward(ph__callable *callable, const char *call)
{
    return callable->backward.graph
               ? ph__callable_graph_join(&callable->backward, callable->set->shared,
                                         &callable->grad_set, 1, call)
               : PH_OK;
}

ph_status ph__making_finish_backward(ph__making *making, const char *call)
{
    PH_TRY(ph__making_hold(making, true, call));
    take_backward(making);
    PH_TRY(make_grad_set(making->callable, call));
    return join_backward(making->callable, call);
}

ph_status ph__making_finish(ph__making *making, const char *call)
{
    ph__callable *callable = making->callable;
    ph__shared_pool *shared = callable->set->shared;
    PH_TRY(ph__making_hold(making, false, call));
    PH_TRY(ph__making_hold(making, true, call));
    take_over(making);
    PH_TRY(make_output_set(making, call));
    callable->keeps_saved = callable->saved_set && keeps_saved(callable);
    ph__output_set *own[] = {callable->out_set, callable->keeps_saved ? callable->saved_set : NULL};
    PH_TRY(ph__callable_graph_join(&callable->forward, shared, own, 2, call));
    PH_TRY(join_backward(callable, call));
    return ph__making_keep(making, call);
}

/* ---- the order of captures ---- */
ph_status ph__making_stage_outgoing(ph__making *making, const char *call)
{
    ph__callable *callable = making->callable;
    size_t all = callable->in_count + callable->parameter_count;
    if (callable->set->options.gradients == PH_GRAPHED_BORROW)
        return PH_OK;
    size_t *bytes = ph__calloc(all + 1, sizeof *bytes);
    if (!bytes)
        return ph__fail_host_memory(call, "what stands for gradients");
    for (size_t i = 0; i < all; i++)
        if (i < callable->in_count)
            bytes[i] = callable->inputs[i].requires_grad ? callable->inputs[i].bytes : 0;
        else
            bytes[i] = callable->parameter_grads[i - callable->in_count]
                           ? ph_tensor_bytes(callable->operands[i])
                           : 0;
    ph_status status =
        ph__stage_make(&making->outgoing, callable->set->stream, bytes, all, NULL, 0, call);
    ph__free(bytes);
    return status;
}

static ph_status stage_inputs(ph__making *making, const char *call)
{
    ph__callable *callable = making->callable;
    size_t *bytes = ph__calloc(callable->in_count + 1, sizeof *bytes);
    if (!bytes)
        return ph__fail_host_memory(call, "what stands for inputs");
    for (size_t i = 0; i < callable->in_count; i++) {
        ph__binding *binding = &callable->inputs[i];
        if (binding->force_copy && callable->set->options.inputs == PH_GRAPHED_REBIND) {
            char path[96];
            ph__free(bytes);
            (void)ph_structure_path(path, sizeof path, callable->structure, i);
            return ph_fail(PH_ERROR_UNSUPPORTED,
                           "%s: callable '%s': input %s cannot be rebound, as was asked for: %s",
                           call, callable->original->name, path, binding->reason);
        }
        binding->rebound = !binding->force_copy;
        binding->backward_slot = binding->slot = PH_SLOT_NONE;
        bytes[i] = binding->bytes;
    }
    making->plan = ph__stage_plan_for(callable->in_count + callable->out_count);
    ph_status status = ph__stage_make(&making->inputs, callable->set->stream, bytes,
                                      callable->in_count, &making->plan, 0, call);
    ph__free(bytes);
    return status == PH_OK ? ph__making_stage_outgoing(making, call) : status;
}

/* The gradients of the outputs are known once the outputs are. */
static ph_status stage_grad_outputs(ph__making *making, ph_tensor *const *out, const char *call)
{
    ph__callable *callable = making->callable;
    if (making->grad_outputs.at)
        return PH_OK;
    size_t *bytes = ph__calloc(callable->out_count, sizeof *bytes);
    if (!bytes)
        return ph__fail_host_memory(call, "what stands for gradients");
    callable->differentiable = false;
    for (size_t i = 0; i < callable->out_count; i++) {
        ph__binding *binding = &callable->grad_outputs[i];
        binding->used = ph__node_is_alive(out[i]->node);
        binding->dtype = out[i]->dtype;
        binding->shape = out[i]->shape;
        binding->bytes = bytes[i] = ph_tensor_bytes(out[i]);
        binding->force_copy = callable->copies_all;
        binding->rebound = !binding->force_copy;
        if (binding->force_copy && !binding->reason[0])
            ph__line_format(binding->reason, sizeof binding->reason, "copying was asked for");
        binding->slot = binding->backward_slot = PH_SLOT_NONE;
        callable->differentiable = callable->differentiable || binding->used;
    }
    ph_status status = ph__stage_make(&making->grad_outputs, callable->set->stream, bytes,
                                      callable->out_count, &making->plan, callable->in_count, call);
    ph__free(bytes);
    return status;
}

static ph_status new_tape(ph_tape **out, const ph__graphed_set *set)
{
    return ph_tape_create(out, set->stream,
                          &(ph_tape_options){.generator = set->options.generator,
                                             .mark_modules = set->options.mark_modules,
                                             .autocast = set->options.autocast});
}

/* Its graphs are compared with the real ones. */
static void end_probe(ph__trial *trial)
{
    ph__trial_free(trial, false);
    ph_tape_destroy(trial->tape);
    trial->tape = NULL;
}

static void abandon_probe(void *trial)
{
    ph_error saved;
    ph__error_save(&saved);
    end_probe(trial);
    ph__error_restore(&saved);
}

static ph_status probe(ph__making *making, size_t number, bool *again, const char *call)
{
    ph__trial *trial = &making->probes[number];
    *trial = (ph__trial){.callable = making->callable, .probe = true, .number = number};
    PH_TRY(new_tape(&trial->tape, making->callable->set));
    PH__UNWIND unwind = {abandon_probe, trial};
    ph_status status = ph__trial_forward(trial, making, call);
    if (status == PH_OK && trial->writes_input)
        *again = true;
    if (status == PH_OK && !*again)
        status = stage_grad_outputs(making, trial->out, call);
    if (status == PH_OK && !*again && making->callable->differentiable &&
        !making->callable->copies_all)
        status = ph__trial_backward(trial, making, call);
    ph_error failure;
    ph__error_save(&failure);
    unwind.undo = NULL;
    end_probe(trial);
    if (status != PH_OK)
        ph__error_restore(&failure);
    return status;
}

/* Where nothing is rebound one probe tells whether forward keeps to its memory. */
static ph_status probe_all(ph__making *making, bool *again, const char *call)
{
    const ph__callable *callable = making->callable;
    size_t count = making->plan.probes;
    if (callable->copies_all)
        count = callable->compared ? 0 : 1;
    making->probes = ph__calloc(making->plan.probes, sizeof *making->probes);
    if (!making->probes)
        return ph__fail_host_memory(call, "the probes");
    for (size_t i = 0; i < count && !*again; i++)
        PH_TRY(probe(making, i, again, call));
    return PH_OK;
}

static ph_status capture_forward(ph__making *making, bool *again, const char *call)
{
    ph__trial *real = &making->real;
    real->callable = making->callable;
    real->tape = making->callable->set->tape;
    PH_TRY(ph__trial_forward(real, making, call));
    PH_TRY(ph__making_compare(making, false, call));
    making->callable->compared = true;
    if (real->writes_input) {
        *again = true;
        return PH_OK;
    }
    PH_TRY(stage_grad_outputs(making, real->out, call));
    return ph__making_prove_forward(making, again, call);
}

static ph_status capture_backward(ph__making *making, bool *again, const char *call)
{
    if (!making->callable->differentiable)
        return PH_OK;
    PH_TRY(ph__trial_backward(&making->real, making, call));
    PH_TRY(ph__making_compare(making, true, call));
    return ph__making_prove_backward(making, again, call);
}

static ph_status capture_all(ph__making *makings, size_t count, bool *again, const char *call)
{
    ph__graphed_set *set = makings[0].callable->set;
    PH_TRY(new_tape(&set->tape, set));
    if (set->begun == 0)
        PH_TRY(ph__graphed_set_mark(&set->begun, set, call));
    for (size_t i = 0; i < count && !*again; i++) {
        PH_TRY(stage_inputs(&makings[i], call));
        PH_TRY(probe_all(&makings[i], again, call));
    }
    PH_TRY(ph__graphed_set_mark(&set->probed, set, call));
    for (size_t i = 0; i < count && !*again; i++)
        PH_TRY(capture_forward(&makings[i], again, call));
    for (size_t i = count; i-- > 0 && !*again;)
        PH_TRY(capture_backward(&makings[i], again, call));
    for (size_t i = 0; i < count && !*again; i++)
        PH_TRY(ph__making_finish(&makings[i], call));
    return PH_OK;
}

void ph__making_clear(ph__making *making)
{
    ph__callable *callable = making->callable;
    ph_stream *stream = callable->set->stream;
    making->real.callable = callable;
    ph__trial_free(&making->real, true);
    for (size_t i = 0; making->probes && i < making->plan.probes; i++)
        ph__trial_free(&making->probes[i], true);
    ph__free(making->probes);
    ph__stage_free(&making->inputs, stream);
    ph__stage_free(&making->grad_outputs, stream);
    ph__stage_free(&making->outgoing, stream);
    *making = (ph__making){.callable = callable};
}

typedef struct capturing {
    ph__making *makings;
    ph__callable *const *callables;
    size_t count;
} capturing;

static void clear(const capturing *c, bool failed)
{
    ph__making *makings = c->makings;
    ph__callable *const *callables = c->callables;
    size_t count = c->count;
    for (size_t i = 0; i < count; i++) {
        ph__making_clear(&makings[i]);
        if (failed)
            ph__callable_reset(callables[i]);
    }
    if (failed) {
        ph_tape_destroy(callables[0]->set->tape);
        callables[0]->set->tape = NULL;
    }
}

/* A function of the user's did not return. */
static void abandon(void *what)
{
    const capturing *c = what;
    ph_error saved;
    ph__error_save(&saved);
    clear(c, true);
    ph__free(c->makings);
    ph__error_restore(&saved);
}

/* Each round more is copied, so that there is an end. */
ph_status ph__callables_capture(ph__callable *const *callables, size_t count, const char *call)
{
    ph__making *makings = ph__calloc(count, sizeof *makings);
    if (!makings)
        return ph__fail_host_memory(call, "the captures");
    ph_status status = PH_OK;
    capturing c = {makings, callables, count};
    for (size_t i = 0; i < count; i++)
        makings[i].callable = callables[i];
    PH__UNWIND unwind = {abandon, &c};
    for (bool again = true; status == PH_OK && again;) {
        again = false;
        status = capture_all(makings, count, &again, call);
        ph_error failure;
        ph__error_save(&failure);
        clear(&c, again || status != PH_OK);
        if (status != PH_OK)
            ph__error_restore(&failure);
    }
    unwind.undo = NULL;
    ph__free(makings);
    return status;
}
