/* SPDX-License-Identifier: MIT */
/* nn/graphed/finish.c: callables take over the real graphs, and what these leave. */
#include "nn/graphed/finish.h"
#include "base/status.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/capture.h"
#include "nn/graphed/depends.h"
#include "nn/graphed/output_sets.h"
#include "nn/graphed/readers.h"
#include "nn/graphed/replay.h"
#include "nn/graphed/touched.h"
#include <phonograph/breaks.h>

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
        for (size_t k = 0;; k++) {
            PH_TRY(ph_record_next_address(&word, &k, record, i));
            if (!word.base)
                break;
            if (word.kind == PH_WORD_VALUE)
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
    for (size_t i = 0; status == PH_OK && i < callable->grad_input_count; i++)
        status = ph__output_set_lend(callable->grad_set, callable->grad_inputs[i].grad, call);
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
    for (size_t i = 0; status == PH_OK && i < callable->out_count; i++)
        status = ph__output_set_lend(callable->out_set, callable->outputs[i], call);
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

static void adopt_real_backward(ph__making *making)
{
    ph__callable *callable = making->callable;
    ph__trial *real = &making->real;
    callable->backward.graph = real->backward;
    real->backward = NULL;
    bool borrowed = callable->set->options.gradients == PH_GRAPHED_BORROW;
    for (size_t i = 0; i < real->grad_input_count; i++) {
        callable->grad_inputs[i] = real->grad_inputs[i];
        real->grad_inputs[i].grad = NULL;
        if (!borrowed && callable->set->options.check_input_liveness)
            callable->grad_inputs[i].idle = making->outgoing.at[real->grad_inputs[i].operand].base;
    }
    if (callable->set->options.check_input_liveness) {
        callable->outgoing = making->outgoing.block;
        making->outgoing.block = NULL;
    }
    callable->grad_input_count = real->grad_input_count;
}

static ph_status adopt_real_graphs(ph__making *making)
{
    ph__callable *callable = making->callable;
    ph__trial *real = &making->real;
    callable->forward.first = NULL;
    if (ph_graph_segment_count(real->forward) > 1)
        PH_TRY(ph_graph_segment(&callable->forward.first, real->forward, 0));
    callable->forward.graph = real->forward;
    real->forward = NULL;
    for (size_t i = 0; i < callable->out_count; i++) {
        callable->outputs[i] = real->out[i];
        real->out[i] = NULL;
    }
    adopt_real_backward(making);
    callable->saved_count = 0;
    for (size_t i = 0; i < callable->in_count; i++)
        callable->saved_count +=
            callable->inputs[i].rebound && callable->inputs[i].backward_slot != PH_SLOT_NONE;
    callable->saved_inputs = callable->saved_count;
    for (size_t i = 0; i < callable->parameter_count; i++)
        if (callable->parameter_saved[i]) {
            size_t at = callable->saved_count++ - callable->saved_inputs;
            callable->saved_parameters[at] = i;
            callable->saved_storages[at] = ph__callable_parameters(callable)[i]->storage;
        }
    return PH_OK;
}

/* Whether a forward writes what the backward of an earlier one may need: memory of the graph,
 * the buffers of copied inputs, what the module itself changes. Otherwise backward reads the
 * call's own inputs alone, which are kept for it. */
static bool must_keep_saved(const ph__callable *callable)
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
    adopt_real_backward(making);
    PH_TRY(make_grad_set(making->callable, call));
    return join_backward(making->callable, call);
}

ph_status ph__making_finish(ph__making *making, const char *call)
{
    ph__callable *callable = making->callable;
    ph__shared_pool *shared = callable->set->shared;
    PH_TRY(ph__making_hold(making, false, call));
    PH_TRY(ph__making_hold(making, true, call));
    PH_TRY(adopt_real_graphs(making));
    PH_TRY(ph__callable_graph_watch(&callable->forward));
    PH_TRY(ph__callable_graph_watch(&callable->backward));
    PH_TRY(make_output_set(making, call));
    callable->keeps_saved = callable->saved_set && must_keep_saved(callable);
    ph__output_set *own[] = {callable->out_set, callable->keeps_saved ? callable->saved_set : NULL};
    PH_TRY(ph__callable_graph_join(&callable->forward, shared, own, 2, call));
    PH_TRY(join_backward(callable, call));
    return ph__making_keep(making, call);
}
