/* SPDX-License-Identifier: MIT */
/* nn/graphed/capture.c: capturing the passes of callables, each as a probe and for good, until
 * all is proved that was not given up. */
#include "nn/graphed/capture.h"
#include "base/alloc.h"
#include "base/line.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/planned.h"
#include "nn/graphed/stage.h"
#include "nn/graphed/trial_tensors.h"
#include "nn/graphed/warmup.h"
#include "nn/graphed/watch.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/bundle.h"
#include "tensor/tape/sightings.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"

typedef struct passing {
    ph__trial *trial;
    ph__making *making;
    const char *call;
    ph_graph **graph; /* the trial's forward or backward, and what is captured into it */
    ph_capture_fn body;
} passing;

static bool is_backward(const passing *p)
{
    return p->graph == &p->trial->backward;
}

/* Of the outputs the trial owns the first ones so far; the others are the tape's. */
typedef struct owning {
    const ph__trial *trial;
    size_t owned;
} owning;

static void leave_others(void *what)
{
    const owning *t = what;
    for (size_t i = t->owned; i < t->trial->callable->out_count; i++)
        t->trial->out[i] = NULL;
}

static ph_status forward_body(ph_stream *stream, void *user)
{
    const passing *p = user;
    ph__trial *trial = p->trial;
    const ph__callable *callable = trial->callable;
    owning t = {.trial = trial};
    PH__UNWIND unwind = {leave_others, &t};
    (void)stream;
    size_t mark = ph_tape_scope_begin(trial->tape);
    if (ph__trial_copy_in(trial, callable->inputs, &p->making->inputs, trial->in,
                          callable->in_count))
        ph_call_n(trial->tape, callable->original, trial->out, callable->out_count, trial->in,
                  callable->in_count);
    for (; t.owned < callable->out_count && !ph__tape_failed(trial->tape); t.owned++)
        trial->out[t.owned] = ph_tensor_retain(ph__trial_own(trial, trial->out[t.owned]));
    unwind.undo = NULL;
    leave_others(&t);
    ph_tape_scope_end(trial->tape, mark, NULL, 0);
    return ph_tape_status(trial->tape);
}

/* Of forward, replays alone call the functions of breaks. Backward has none: gradients come and go
 * by slots of one graph. Executables that are made together are uploaded together. */
static ph_status capture_pass(passing *p)
{
    const ph__graphed_set *set = p->trial->callable->set;
    const ph_graph_options options = {.keep_graph = p->trial->probe,
                                      .defer_upload = !p->trial->callable->of};
    PH_TRY(ph_graph_create(p->graph, &options));
    const ph_capture_options of_capture = {.pool = ph__trial_pool(p->trial),
                                           .mode = set->options.mode,
                                           .enable_annotations = set->options.enable_annotations,
                                           .check_input_liveness =
                                               set->options.check_input_liveness,
                                           .check_foreign_every = set->options.check_foreign_every,
                                           .allow_breaks = !is_backward(p),
                                           .defer_breaks = !is_backward(p),
                                           .compared = true};
    return ph__trial_is_planned(p->trial)
               ? ph_memory_plan_capture(set->plan, p->making->plan_at[is_backward(p)], *p->graph,
                                        &of_capture, p->body, p)
               : ph_graph_capture(*p->graph, set->stream, &of_capture, p->body, p);
}

static void stop_noting(void *tape)
{
    ((ph_tape *)tape)->sightings = NULL;
}

/* Notes what operators use meanwhile. */
static ph_status capture_seeing(passing *p)
{
    ph__trial *trial = p->trial;
    trial->tape->sightings = &trial->seen[is_backward(p)];
    PH__UNWIND unwind = {stop_noting, trial->tape};
    ph_status status = capture_pass(p);
    unwind.undo = NULL;
    stop_noting(trial->tape);
    ph__trial_forget_brought(trial, is_backward(p));
    return status;
}

/* Parameters that operators have saved: backward of each call is to find them as that call did. */
static void note_saved(const ph__trial *trial)
{
    const ph__callable *callable = trial->callable;
    for (size_t i = 0; i < callable->parameter_count; i++)
        callable->parameter_saved[i] = false;
    for (size_t i = trial->first_node; i < trial->tape->nodes.count; i++) {
        const ph__node *node = trial->tape->nodes.at[i];
        for (size_t k = 0; k < node->saved_count; k++)
            for (size_t p = 0; p < callable->parameter_count && node->saved[k]; p++)
                if (node->saved[k]->storage == ph__callable_parameters(callable)[p]->storage)
                    callable->parameter_saved[p] = true;
    }
}

/* The module changes an input: the caller's own must stay as it is. */
static void note_input_writes(ph__trial *trial, const uint64_t *versions)
{
    for (size_t i = 0; i < trial->callable->in_count; i++) {
        ph__binding *binding = &trial->callable->inputs[i];
        if (!binding->rebound || ph_tensor_version(trial->in[i]) == versions[i])
            continue;
        binding->force_copy = true;
        trial->writes_input = true;
        ph__line_format(binding->reason, sizeof binding->reason, "the module writes to it");
    }
}

/* Behind each pass. */
static void note_shown(ph__trial *trial)
{
    for (size_t i = 0; i < trial->callable->in_count; i++)
        trial->shown = trial->shown || ph__storage_is_shown(trial->in[i]->storage);
    for (size_t i = 0; i < trial->callable->out_count; i++)
        trial->shown = trial->shown || (trial->grad_outputs[i] &&
                                        ph__storage_is_shown(trial->grad_outputs[i]->storage));
}

static ph_status make_inputs(ph__trial *trial, const ph__making *making, uint64_t *versions,
                             const char *call)
{
    for (size_t i = 0; i < trial->callable->in_count; i++) {
        ph__binding *binding = &trial->callable->inputs[i];
        PH_TRY(ph__trial_stand_in(&trial->in[i], trial, binding, &making->inputs.at[i], call));
        if (binding->requires_grad)
            PH_TRY(ph_tensor_set_requires_grad(trial->in[i], true));
        versions[i] = ph_tensor_version(trial->in[i]);
    }
    return PH_OK;
}

/* The state before the capture of forward, for comparison. */
typedef struct before {
    ph__graphed_watch watch;
    uint64_t *versions; /* of the inputs */
} before;

static void forget_versions(void *what)
{
    before *b = what;
    ph__watch_free(&b->watch);
    ph__free(b->versions);
}

ph_status ph__trial_forward(ph__trial *trial, ph__making *making, const char *call)
{
    const ph__callable *callable = trial->callable;
    passing p = {trial, making, call, &trial->forward, forward_body};
    before b = {.versions = ph__calloc(callable->in_count + 1, sizeof *b.versions)};
    PH__UNWIND unwind = {forget_versions, &b};
    trial->in = ph__calloc(callable->in_count + 1, sizeof *trial->in);
    trial->out = ph__calloc(callable->out_count, sizeof *trial->out);
    trial->grad_outputs = ph__calloc(callable->out_count, sizeof *trial->grad_outputs);
    trial->first_node = trial->tape->nodes.count;
    ph_status status = b.versions && trial->in && trial->out && trial->grad_outputs
                           ? PH_OK
                           : ph__fail_host_memory(call, PH__TRIAL);
    if (status == PH_OK)
        status = make_inputs(trial, making, b.versions, call);
    if (status == PH_OK && !trial->probe)
        status = ph__watch_begin(&b.watch, callable->original, call);
    if (status == PH_OK)
        status = ph__callable_failed(callable, capture_seeing(&p), "capturing forward", call);
    if (status == PH_OK) {
        note_input_writes(trial, b.versions);
        note_shown(trial);
        note_saved(trial);
        status = ph__trial_check_leaves(trial, call);
    }
    if (status == PH_OK && !trial->probe)
        status = ph__watch_end(&b.watch, trial, call);
    unwind.undo = NULL;
    forget_versions(&b);
    return status;
}

/* ---- backward ---- */
typedef struct gathering {
    ph_tensor **wanted, **found, **with, **seeds;
    size_t *wanted_at, *with_at, wanted_count, with_count;
} gathering;

static bool gather_gradients(gathering *g, const ph__trial *trial)
{
    const ph__callable *callable = trial->callable;
    size_t all = callable->in_count + callable->parameter_count + 1, out = callable->out_count;
    g->wanted = ph__calloc(all, sizeof *g->wanted);
    g->found = ph__calloc(all, sizeof *g->found);
    g->wanted_at = ph__calloc(all, sizeof *g->wanted_at);
    g->with = ph__calloc(out, sizeof *g->with);
    g->seeds = ph__calloc(out, sizeof *g->seeds);
    g->with_at = ph__calloc(out, sizeof *g->with_at);
    if (!g->wanted || !g->found || !g->wanted_at || !g->with || !g->seeds || !g->with_at)
        return false;
    g->wanted_count = ph__callable_wanted(callable, trial->in, g->wanted, g->wanted_at);
    g->with_count = ph__callable_differentiable(callable, trial->out, g->with, g->with_at);
    size_t used = 0;
    for (size_t i = 0; i < g->with_count; i++) {
        if (!callable->grad_outputs[g->with_at[i]].used)
            continue;
        g->with[used] = g->with[i];
        g->seeds[used++] = trial->grad_outputs[g->with_at[i]];
    }
    g->with_count = used;
    return true;
}

static void free_gathering(void *what)
{
    const gathering *g = what;
    ph__free(g->wanted);
    ph__free(g->found);
    ph__free(g->wanted_at);
    ph__free(g->with);
    ph__free(g->seeds);
    ph__free(g->with_at);
}

/* Two leaves that borrow one gradient would each change the other's. */
static ph_tensor *own_alone(const ph__trial *trial, ph_tensor *grad)
{
    for (size_t i = 0; grad && i < trial->grad_input_count; i++)
        if (trial->grad_inputs[i].grad->storage == grad->storage)
            return ph_clone(trial->tape, grad);
    return ph__trial_own(trial, grad);
}

/* Tensors that leave the graph are contiguous, and in memory of their own where they are lent. */
static void collect_grad_inputs(ph__trial *trial, const gathering *g, bool borrowed)
{
    for (size_t i = 0; i < g->wanted_count && !ph__tape_failed(trial->tape); i++) {
        if (!g->found[i])
            continue;
        ph_tensor *grad = ph_contiguous(trial->tape, g->found[i]);
        trial->grad_inputs[trial->grad_input_count] =
            (ph__grad_input){.operand = g->wanted_at[i],
                             .grad = ph_tensor_retain(borrowed ? own_alone(trial, grad) : grad),
                             .bytes = grad ? ph_tensor_bytes(grad) : 0,
                             .alignment = grad ? ph_dtype_size(grad->dtype) : 1,
                             .slot = PH_SLOT_NONE};
        trial->grad_input_count += trial->grad_inputs[trial->grad_input_count].grad != NULL;
    }
}

/* Nobody reads them behind that: what this capture goes on to, and later ones, may have their
 * memory. */
static void copy_out_gradients(const ph__trial *trial, const ph__stage *stage)
{
    ph__bundle_pair *pairs = ph__calloc(trial->grad_input_count + 1, sizeof *pairs);
    if (!pairs) {
        ph__tape_fail_host_memory(trial->tape, PH__TRIAL, "gradients");
        return;
    }
    for (size_t i = 0; i < trial->grad_input_count; i++) {
        const ph_tensor *grad = trial->grad_inputs[i].grad;
        pairs[i] = (ph__bundle_pair){grad->data, stage->at[trial->grad_inputs[i].operand].base,
                                     grad->count, grad->dtype, PH__BUNDLE_COPY};
    }
    ph__bundle_launch(trial->tape, pairs, trial->grad_input_count);
    ph__free(pairs);
    for (size_t i = 0; i < trial->grad_input_count; i++) {
        ph_tensor_release(trial->grad_inputs[i].grad);
        trial->grad_inputs[i].grad = NULL;
    }
}

static ph_status backward_body(ph_stream *stream, void *user)
{
    const passing *p = user;
    ph__trial *trial = p->trial;
    const ph__callable *callable = trial->callable;
    const ph_graphed_options *options = &callable->set->options;
    gathering g = {0};
    PH__UNWIND unwind = {free_gathering, &g};
    (void)stream;
    size_t mark = ph_tape_scope_begin(trial->tape);
    if (!gather_gradients(&g, trial)) {
        ph__tape_fail_host_memory(trial->tape, p->call, PH__TRIAL);
    } else if (ph__trial_copy_in(trial, callable->grad_outputs, &p->making->grad_outputs,
                                 trial->grad_outputs, callable->out_count) &&
               (!callable->of || ph__trial_copy_in(trial, callable->inputs, &p->making->inputs,
                                                   trial->in, callable->in_count))) {
        bool borrowed = options->gradients == PH_GRAPHED_BORROW;
        ph_grad(trial->tape, g.found, g.wanted, g.wanted_count, g.with, g.seeds, g.with_count,
                &(ph_grad_options){.retain_graph = true, .allow_unused = true});
        if (!callable->of)
            ph__callable_check_unused(callable, trial->tape, g.found, g.wanted_at, g.wanted_count);
        collect_grad_inputs(trial, &g, borrowed);
        if (!borrowed && !ph__tape_failed(trial->tape))
            copy_out_gradients(trial, &p->making->outgoing);
    }
    unwind.undo = NULL;
    free_gathering(&g);
    ph_tape_scope_end(trial->tape, mark, NULL, 0);
    return ph_tape_status(trial->tape);
}

ph_status ph__trial_backward(ph__trial *trial, ph__making *making, const char *call)
{
    const ph__callable *callable = trial->callable;
    passing p = {trial, making, call, &trial->backward, backward_body};
    trial->grad_inputs =
        ph__calloc(callable->in_count + callable->parameter_count + 1, sizeof *trial->grad_inputs);
    if (!trial->grad_inputs)
        return ph__fail_host_memory(call, PH__TRIAL);
    for (size_t i = 0; i < callable->out_count; i++)
        if (callable->grad_outputs[i].used)
            PH_TRY(ph__trial_stand_in(&trial->grad_outputs[i], trial,
                                      &trial->callable->grad_outputs[i],
                                      &making->grad_outputs.at[i], call));
    ph_status status =
        ph__callable_failed(callable, capture_seeing(&p), "capturing backward", call);
    note_shown(trial);
    return status;
}

void ph__trial_free(ph__trial *trial, bool graphs)
{
    for (size_t i = 0; trial->in && i < trial->callable->in_count; i++)
        ph_tensor_release(trial->in[i]);
    for (size_t i = 0; trial->out && i < trial->callable->out_count; i++)
        ph_tensor_release(trial->out[i]);
    for (size_t i = 0; trial->grad_outputs && i < trial->callable->out_count; i++)
        ph_tensor_release(trial->grad_outputs[i]);
    for (size_t i = 0; i < trial->grad_input_count; i++)
        ph_tensor_release(trial->grad_inputs[i].grad);
    ph__free(trial->in);
    ph__free(trial->out);
    ph__free(trial->grad_outputs);
    ph__free(trial->grad_inputs);
    trial->in = trial->out = trial->grad_outputs = NULL;
    trial->grad_inputs = NULL;
    trial->grad_input_count = 0;
    if (!graphs)
        return;
    ph__sightings_free(&trial->seen[0]);
    ph__sightings_free(&trial->seen[1]);
    ph_graph_destroy(trial->forward);
    ph_graph_destroy(trial->backward);
    trial->forward = trial->backward = NULL;
}
