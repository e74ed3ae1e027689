/* SPDX-License-Identifier: MIT */
/* nn/graphed/prove.c: which inputs of a capture can be rebound, and the slots by which calls
 * reach into its graphs. */
#include "nn/graphed/prove.h"
#include "base/alloc.h"
#include "base/line.h"
#include "base/status.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/capture.h"
#include "nn/graphed/frozen.h"
#include "nn/graphed/stage.h"
#include "nn/graphed/warmup.h"
#include "tensor/kernels/bundle.h"
#include <phonograph/breaks.h>
#include <stdio.h>
#include <string.h>

/* ---- proofs ---- */
typedef struct proof {
    ph__making *making;
    ph_graph **probes;
    ph_slot_span *spans;
    ph_slot_proof *results;
    ph__binding **bindings;
    size_t count;
} proof;

static bool begin_proof(proof *p, ph__making *making)
{
    size_t room = making->callable->in_count + making->callable->out_count;
    *p = (proof){.making = making};
    p->probes = ph__calloc(making->probe_count + 1, sizeof *p->probes);
    p->spans = ph__calloc(room, sizeof *p->spans);
    p->results = ph__calloc(room, sizeof *p->results);
    p->bindings = ph__calloc(room, sizeof *p->bindings);
    return p->probes && p->spans && p->results && p->bindings;
}

static void end_proof(proof *p)
{
    ph__free(p->probes);
    ph__free(p->spans);
    ph__free(p->results);
    ph__free(p->bindings);
}

static void add_slot_use(proof *p, ph__binding *binding, const ph__stand_in *memory,
                         const char *name)
{
    if (!binding->used || !binding->rebound || binding->bytes == 0)
        return;
    p->spans[p->count] =
        (ph_slot_span){.name = name,
                       .base = memory->base,
                       .shifted = (const void *const *)memory->shifted,
                       .bytes = binding->bytes,
                       .alignment = PH__BINDING_ALIGNMENT,
                       .skip_lookup = !p->making->callable->set->options.check_input_liveness};
    p->bindings[p->count++] = binding;
}

void ph__callable_copy_all(ph__callable *callable, const char *reason)
{
    for (size_t i = 0; i < callable->in_count + callable->out_count; i++) {
        ph__binding *binding = i < callable->in_count
                                   ? &callable->inputs[i]
                                   : &callable->grad_outputs[i - callable->in_count];
        if (!binding->force_copy)
            ph__line_format(binding->reason, sizeof binding->reason, "%s", reason);
        binding->force_copy = true;
    }
    callable->copies_all = true;
}

static ph_status copy_or_refuse_unproved(proof *p, bool *again, const char *call)
{
    ph__callable *callable = p->making->callable;
    for (size_t i = 0; i < p->count; i++) {
        const ph_slot_proof *result = &p->results[i];
        if (result->slot != PH_SLOT_NONE)
            continue;
        if (callable->set->options.inputs == PH_GRAPHED_REBIND)
            return ph_fail(PH_ERROR_UNSUPPORTED,
                           "%s: callable '%s': %s cannot be rebound, as was asked for: %s", call,
                           callable->original->name, p->spans[i].name, result->reason);
        /* one use that nobody can explain may be any input's */
        ph__callable_copy_all(callable, result->reason);
        callable->compared = false; /* with nothing moved, whatever differs is the function's */
        *again = true;
        return PH_OK;
    }
    return PH_OK;
}

static ph_status run_proof(proof *p, bool backward, bool *again, const char *call)
{
    ph__making *making = p->making;
    ph_graph *graph = backward ? making->real.backward : making->real.forward;
    if (p->count == 0)
        return PH_OK;
    for (size_t i = 0; i < making->probe_count; i++)
        p->probes[i] = backward ? making->probes[i].backward : making->probes[i].forward;
    PH_TRY(ph__callable_failed(
        making->callable,
        ph_graph_slot_prove(p->results, graph, p->probes, making->probe_count, p->spans, p->count),
        "proving its inputs", call));
    PH_TRY(copy_or_refuse_unproved(p, again, call));
    return *again && making->probe_count
               ? ph__frozen_report(&making->real, &making->probes[0], backward, true, call)
               : PH_OK;
}

/* ---- where copies come from ---- */
static ph_status find_copies(ph__binding *bindings, const ph__stage *stage, ph_graph *graph,
                             size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        ph__binding *binding = &bindings[i];
        if (!binding->used || binding->rebound)
            continue;
        binding->slot = PH_SLOT_NONE;
        binding->uses = 0;
        if (binding->bytes > 0)
            PH_TRY(
                ph_graph_slot_find(&binding->slot, graph, name, stage->at[i].base, binding->bytes,
                                   &(ph_slot_options){.alignment = ph_dtype_size(binding->dtype)}));
    }
    return PH_OK;
}

ph_status ph__making_prove_forward(ph__making *making, bool *again, const char *call)
{
    ph__callable *callable = making->callable;
    proof p;
    if (!begin_proof(&p, making)) {
        end_proof(&p);
        return ph__fail_host_memory(call, "a proof");
    }
    for (size_t i = 0; i < callable->in_count; i++)
        add_slot_use(&p, &callable->inputs[i], &making->inputs.at[i], "an input");
    ph_status status = run_proof(&p, false, again, call);
    for (size_t i = 0; status == PH_OK && !*again && i < p.count; i++) {
        p.bindings[i]->slot = p.results[i].slot;
        p.bindings[i]->uses = p.results[i].uses;
    }
    end_proof(&p);
    ph_graph *first = NULL; /* segment: inputs are copied at the begin */
    if (status == PH_OK && !*again)
        status = ph_graph_segment(&first, making->real.forward, 0);
    if (status == PH_OK && !*again)
        status = find_copies(callable->inputs, &making->inputs, first, callable->in_count,
                             "an input's copy");
    return status;
}

/* ---- where gradients go ---- */
/* The bundle whose first destination is at address. */
static ph_status find_bundle(size_t *node, ph_graph *graph, const void *address, const char *call)
{
    const ph_record *record;
    ph_node_info info;
    PH_TRY(ph_graph_record(&record, graph));
    for (size_t i = ph_record_node_count(record); i-- > 0;) {
        PH_TRY(ph_record_node(&info, record, i));
        if (info.kind == PH_NODE_KERNEL && info.args_size == sizeof(ph__bundle_args) &&
            strcmp(info.name, PH__BUNDLE_KERNEL) == 0 &&
            ((const ph__bundle_args *)info.args)->dst[0] == address) {
            *node = i;
            return PH_OK;
        }
    }
    return ph_fail(PH_ERROR_STATE, "%s: the capture has no node that hands out the gradients",
                   call);
}

/* Where all of a bundle is empty there is no node. */
static bool is_empty_bundle(const ph__trial *real, size_t first)
{
    for (size_t i = first; i < real->grad_input_count && i < first + PH__BUNDLE_MAX; i++)
        if (real->grad_inputs[i].bytes > 0)
            return false;
    return true;
}

/* The operations on gradients are a value of a bundle: all of them are copied in the capture. */
static ph_status declare_ops(ph__making *making, size_t first, const void *address,
                             const char *call)
{
    ph__callable *callable = making->callable;
    const ph__trial *real = &making->real;
    uint8_t expected[PH__BUNDLE_MAX] = {0};
    size_t node = 0;
    for (size_t i = first; i < real->grad_input_count && i < first + PH__BUNDLE_MAX; i++)
        expected[i - first] = PH__BUNDLE_COPY;
    PH_TRY(find_bundle(&node, real->backward, address, call));
    return ph_graph_slot_declare_scalar(&callable->op_slots[first / PH__BUNDLE_MAX], real->backward,
                                        "what is done with gradients", expected, PH__BUNDLE_MAX,
                                        &(ph_slot_place){node, offsetof(ph__bundle_args, op)}, 1);
}

static ph_status find_grad_inputs(ph__making *making, const char *call)
{
    ph__callable *callable = making->callable;
    ph__trial *real = &making->real;
    for (size_t i = 0; i < real->grad_input_count; i++) {
        ph__grad_input *grad_input = &real->grad_inputs[i];
        const ph__stand_in *to = &making->outgoing.at[grad_input->operand];
        if (i % PH__BUNDLE_MAX == 0) {
            callable->op_slots[i / PH__BUNDLE_MAX] = PH_SLOT_NONE;
            callable->op_slot_count = i / PH__BUNDLE_MAX + 1;
        }
        if (i % PH__BUNDLE_MAX == 0 && !is_empty_bundle(real, i))
            PH_TRY(declare_ops(making, i, to->base, call));
        grad_input->op_at = i;
        /* Calls bring memory of tensors that they hold: the allocator need not be asked. */
        if (grad_input->bytes > 0)
            PH_TRY(ph_graph_slot_find(
                &grad_input->slot, real->backward, "a gradient", to->base, grad_input->bytes,
                &(ph_slot_options){.alignment = grad_input->alignment,
                                   .skip_lookup = !callable->set->options.check_input_liveness}));
    }
    return PH_OK;
}

ph_status ph__making_prove_backward(ph__making *making, bool *again, const char *call)
{
    ph__callable *callable = making->callable;
    proof p;
    if (!begin_proof(&p, making)) {
        end_proof(&p);
        return ph__fail_host_memory(call, "a proof");
    }
    for (size_t i = 0; i < callable->in_count; i++)
        add_slot_use(&p, &callable->inputs[i], &making->inputs.at[i],
                     "an input that backward reads");
    size_t inputs = p.count;
    for (size_t i = 0; i < callable->out_count; i++)
        add_slot_use(&p, &callable->grad_outputs[i], &making->grad_outputs.at[i],
                     "the gradient of an output");
    ph_status status = run_proof(&p, true, again, call);
    for (size_t i = 0; status == PH_OK && !*again && i < p.count; i++) {
        ph__binding *binding = p.bindings[i];
        if (i < inputs) {
            binding->backward_uses = p.results[i].uses;
            binding->backward_slot = binding->backward_uses ? p.results[i].slot : PH_SLOT_NONE;
        } else {
            binding->slot = p.results[i].slot;
            binding->uses = p.results[i].uses;
        }
    }
    end_proof(&p);
    if (status == PH_OK && !*again)
        status = find_copies(callable->grad_outputs, &making->grad_outputs, making->real.backward,
                             callable->out_count, "a gradient's copy");
    if (status == PH_OK && !*again && callable->of)
        status = find_copies(callable->inputs, &making->inputs, making->real.backward,
                             callable->in_count, "an input's copy");
    if (status == PH_OK && !*again && callable->set->options.gradients != PH_GRAPHED_BORROW)
        status = find_grad_inputs(making, call);
    return status;
}
