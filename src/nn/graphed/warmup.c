/* SPDX-License-Identifier: MIT */
/* nn/graphed/warmup.c: calls of modules before their capture, and what captures and calls both
 * ask of a callable. */
#include "nn/graphed/warmup.h"
#include "base/alloc.h"
#include "base/line.h"
#include "base/option.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/callable.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"

enum {
    DEFAULT_ITERATIONS = 3
};

size_t ph__callable_wanted(const ph__callable *callable, ph_tensor *const *in, ph_tensor **wanted,
                           size_t *at)
{
    size_t count = 0;
    for (size_t i = 0; i < callable->in_count; i++)
        if (callable->inputs[i].requires_grad) {
            at[count] = i;
            wanted[count++] = in[i];
        }
    for (size_t i = 0; i < callable->parameter_count; i++)
        if (callable->parameter_grads[i]) {
            at[count] = callable->in_count + i;
            wanted[count++] = ph__callable_parameters(callable)[i];
        }
    return count;
}

size_t ph__callable_differentiable(const ph__callable *callable, ph_tensor *const *out,
                                   ph_tensor **with, size_t *at)
{
    size_t count = 0;
    for (size_t i = 0; i < callable->out_count; i++)
        if (out[i] && ph__node_is_alive(out[i]->node)) {
            at[count] = i;
            with[count++] = out[i];
        }
    return count;
}

void ph__callable_check_unused(const ph__callable *callable, ph_tape *tape, ph_tensor *const *grads,
                               const size_t *at, size_t count)
{
    char path[256];
    for (size_t i = 0;
         i < count && !callable->set->options.allow_unused_input && !ph__tape_failed(tape); i++) {
        bool input = at[i] < callable->in_count;
        if (grads[i])
            continue;
        if (input)
            (void)ph_structure_path(path, sizeof path, callable->structure, at[i]);
        else
            (void)ph__callable_parameter_name(path, sizeof path, callable,
                                              at[i] - callable->in_count);
        ph_tape_fail(tape, PH_ERROR_ARGUMENT,
                     "%s '%s' requires a gradient and takes no part in the outputs; with "
                     "allow_unused_input of "
                     "ph_graphed_options it gets none",
                     input ? "input" : "parameter", path);
    }
}

ph_status ph__callable_failed(const ph__callable *callable, ph_status status, const char *step,
                              const char *call)
{
    if (status != PH_OK)
        ph__error_prefix("%s: callable '%s': %s", call, callable->original->name, step);
    return status;
}

/* ---- one call ---- */
typedef struct warmup {
    ph__callable *callable;
    ph_tape *tape;
    ph_tensor **in, **out, **wanted, **grads, **with, **seeds;
    size_t *at;
    uint64_t *versions; /* of the inputs, before the calls */
} warmup;

static bool allocate_warmup(warmup *w)
{
    size_t in = w->callable->in_count, out = w->callable->out_count,
           all = in + w->callable->parameter_count + out + 1;
    w->in = ph__calloc(in + 1, sizeof *w->in);
    w->out = ph__calloc(out, sizeof *w->out);
    w->wanted = ph__calloc(all, sizeof *w->wanted);
    w->grads = ph__calloc(all, sizeof *w->grads);
    w->with = ph__calloc(out, sizeof *w->with);
    w->seeds = ph__calloc(out, sizeof *w->seeds);
    w->at = ph__calloc(all, sizeof *w->at);
    w->versions = ph__calloc(in + 1, sizeof *w->versions);
    return w->in && w->out && w->wanted && w->grads && w->with && w->seeds && w->at && w->versions;
}

static void release_warmup(warmup *w)
{
    for (size_t i = 0; w->in && i < w->callable->in_count; i++)
        ph_tensor_release(w->in[i]);
    ph_tape_destroy(w->tape);
    ph__free(w->in);
    ph__free(w->out);
    ph__free(w->wanted);
    ph__free(w->grads);
    ph__free(w->with);
    ph__free(w->seeds);
    ph__free(w->at);
    ph__free(w->versions);
}

/* A function of the user's did not return. */
static void abandon_warmup(void *what)
{
    ph_error saved;
    ph__error_save(&saved);
    release_warmup(what);
    ph__error_restore(&saved);
}

/* The sample stays as it is: the module gets copies, without the sample's history. */
static ph_status copy_inputs(warmup *w, const ph_sample *sample, const char *call)
{
    for (size_t i = 0; i < w->callable->in_count; i++) {
        const ph_tensor *x = sample->tensors[i];
        ph_tensor *plain = ph__tensor_make(x->storage, x->dtype, &x->shape, x->stride,
                                           x->count ? (size_t)(x->data - x->storage->data) : 0);
        if (!plain)
            return ph__fail_host_memory(call, "a tensor");
        ph__tensor_tag_like(plain, x);
        w->in[i] = ph_tensor_retain(ph_clone(w->tape, plain));
        ph_tensor_release(plain);
        PH_TRY(ph_tape_status(w->tape));
        if (w->callable->inputs[i].requires_grad)
            PH_TRY(ph_tensor_set_requires_grad(w->in[i], true));
    }
    return PH_OK;
}

static ph_status run_warmup(warmup *w)
{
    ph__callable *callable = w->callable;
    ph_call_n(w->tape, callable->original, w->out, callable->out_count, w->in, callable->in_count);
    PH_TRY(ph_tape_status(w->tape));
    size_t with = ph__callable_differentiable(callable, w->out, w->with, w->at);
    /* whose places are needed */
    size_t wanted = ph__callable_wanted(callable, w->in, w->wanted, w->at);
    if (wanted > 0 && with > 0) {
        for (size_t i = 0; i < with; i++)
            w->seeds[i] = ph_zeros(w->tape, w->with[i]->dtype, w->with[i]->shape);
        ph_grad(w->tape, w->grads, w->wanted, wanted, w->with, w->seeds, with,
                &(ph_grad_options){.allow_unused = true});
        ph__callable_check_unused(callable, w->tape, w->grads, w->at, wanted);
    }
    return ph_tape_status(w->tape);
}

static void note_warmup_writes(warmup *w)
{
    for (size_t i = 0; i < w->callable->in_count; i++) {
        ph__binding *binding = &w->callable->inputs[i];
        if (binding->force_copy || ph_tensor_version(w->in[i]) == w->versions[i])
            continue;
        binding->force_copy = true;
        ph__line_format(binding->reason, sizeof binding->reason, "the module writes to it");
    }
}

static ph_status repeat_warmup(warmup *w, size_t iterations)
{
    ph_status status = PH_OK;
    for (size_t i = 0; i < iterations && status == PH_OK; i++) {
        status = run_warmup(w);
        /* the first failure, which run has told already */
        ph_status cleared = ph_tape_clear(w->tape);
        status = status == PH_OK ? cleared : status;
    }
    return status;
}

ph_status ph__callable_warm_up(ph__callable *callable, const ph_sample *sample, const char *call)
{
    const ph__graphed_set *set = callable->set;
    size_t iterations = ph__option_count(set->options.warmup_iterations, DEFAULT_ITERATIONS);
    warmup w = {.callable = callable};
    if (iterations == 0)
        return PH_OK;
    PH__UNWIND unwind = {abandon_warmup, &w};
    ph_status status = allocate_warmup(&w) ? PH_OK : ph__fail_host_memory(call, "the warm-up");
    if (status == PH_OK)
        status = ph_tape_create(&w.tape, set->stream,
                                &(ph_tape_options){.generator = set->options.generator,
                                                   .autocast = set->options.autocast});
    if (status == PH_OK)
        status = copy_inputs(&w, sample, call);
    for (size_t i = 0; status == PH_OK && i < callable->in_count; i++)
        w.versions[i] = ph_tensor_version(w.in[i]);
    if (status == PH_OK)
        status = repeat_warmup(&w, iterations);
    if (status == PH_OK)
        note_warmup_writes(&w);
    ph_error failure;
    ph__error_save(&failure);
    unwind.undo = NULL;
    release_warmup(&w);
    if (status != PH_OK)
        ph__error_restore(&failure);
    return ph__callable_failed(callable, status, "warm-up", call);
}
