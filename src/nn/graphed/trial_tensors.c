/* SPDX-License-Identifier: MIT */
/* nn/graphed/trial_tensors.c: tensors of a capture: those that stand for what calls bring,
 * copies that are the graph's own, and those that a pass has used. */
#include "nn/graphed/trial_tensors.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/capture.h"
#include "nn/graphed/stage.h"
#include "tensor/core/describe.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/bundle.h"
#include "tensor/tape/node.h"
#include "tensor/tape/sightings.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"

static ph_status wrap_memory(ph_tensor **out, const ph__trial *trial, const ph__binding *binding,
                             void *data, const char *call)
{
    ph__storage *storage;
    *out = NULL;
    PH_TRY(ph__storage_wrap(&storage, trial->tape->backend, data, binding->bytes, NULL, NULL));
    storage->stands_in = true;
    *out = ph__tensor_make(storage, binding->dtype, &binding->shape, NULL, 0);
    ph__storage_release(storage);
    return *out ? PH_OK : ph__fail_host_memory(call, PH__TRIAL);
}

ph_status ph__trial_stand_in(ph_tensor **out, const ph__trial *trial, ph__binding *binding,
                             const ph__stand_in *memory, const char *call)
{
    if (binding->rebound)
        PH_TRY(wrap_memory(out, trial, binding,
                           trial->probe ? memory->shifted[trial->number] : memory->base, call));
    else {
        if (!binding->buffer)
            binding->buffer =
                ph_tensor_retain(ph_empty(trial->tape, binding->dtype, binding->shape));
        PH_TRY(ph_tape_status(trial->tape));
        *out = ph__tensor_make(binding->buffer->storage, binding->dtype, &binding->shape, NULL, 0);
        if (!*out)
            return ph__fail_host_memory(call, PH__TRIAL);
    }
    return PH_OK;
}

bool ph__trial_copy_in(const ph__trial *trial, const ph__binding *bindings, const ph__stage *stage,
                       ph_tensor *const *to, size_t count)
{
    ph__bundle_pair *pairs = ph__calloc(count + 1, sizeof *pairs);
    size_t used = 0;
    if (!pairs) {
        ph__tape_fail_host_memory(trial->tape, PH__TRIAL, "copies");
        return false;
    }
    for (size_t i = 0; i < count; i++)
        if (bindings[i].used && !bindings[i].rebound && to[i] && to[i]->count > 0)
            pairs[used++] = (ph__bundle_pair){stage->at[i].base, to[i]->data, to[i]->count,
                                              to[i]->dtype, PH__BUNDLE_COPY};
    bool ok = ph__bundle_launch(trial->tape, pairs, used);
    ph__free(pairs);
    return ok;
}

ph_tensor *ph__trial_own(const ph__trial *trial, ph_tensor *x)
{
    bool is_own = !x || (x->storage->kind == PH__STORAGE_CACHED &&
                         x->storage->key == ph__tape_key(trial->tape));
    for (size_t i = 0; i < trial->callable->in_count && is_own && x; i++)
        is_own = x->storage != trial->in[i]->storage;
    for (size_t i = 0; i < trial->callable->out_count && is_own && x; i++)
        is_own = !trial->grad_outputs[i] || x->storage != trial->grad_outputs[i]->storage;
    return is_own ? x : ph_clone(trial->tape, x);
}

static bool is_declared(const ph__callable *callable, ph_tensor *const *in, const ph_tensor *leaf)
{
    for (size_t i = 0; i < callable->in_count; i++)
        if (in[i] == leaf)
            return true;
    for (size_t i = 0; i < callable->parameter_count; i++)
        if (ph__callable_parameters(callable)[i] == leaf)
            return true;
    return false;
}

ph_status ph__trial_check_leaves(const ph__trial *trial, const char *call)
{
    char text[PH__DESCRIBE];
    for (size_t i = trial->first_node; i < trial->tape->nodes.count; i++) {
        const ph__node *node = trial->tape->nodes.at[i];
        for (size_t k = 0; k < node->in_count; k++) {
            const ph_tensor *leaf = ph__node_edge(node, k)->leaf;
            if (leaf && leaf->requires_grad && !is_declared(trial->callable, trial->in, leaf))
                return ph_fail(
                    PH_ERROR_ARGUMENT,
                    "%s: callable '%s': operator %s uses %s, which requires a gradient, and is "
                    "neither an input nor a parameter "
                    "of the module: its gradient would be lost; make it one of them, or detach it",
                    call, trial->callable->original->name, node->name, ph__describe(text, leaf));
        }
    }
    return PH_OK;
}

static bool is_brought(const ph__trial *trial, const ph__storage *storage)
{
    for (size_t i = 0; i < trial->callable->in_count; i++)
        if (trial->in[i] && trial->in[i]->storage == storage)
            return true;
    for (size_t i = 0; i < trial->callable->out_count; i++)
        if (trial->grad_outputs[i] && trial->grad_outputs[i]->storage == storage)
            return true;
    return false;
}

void ph__trial_forget_brought(ph__trial *trial, bool backward)
{
    ph__sightings *in = &trial->seen[backward];
    size_t kept = 0;
    ph__map_free(&in->known);
    for (size_t i = 0; i < in->list.count; i++)
        if (is_brought(trial, in->list.at[i].storage))
            ph__storage_release(in->list.at[i].storage);
        else
            in->list.at[kept++] = in->list.at[i];
    in->list.count = kept;
}
