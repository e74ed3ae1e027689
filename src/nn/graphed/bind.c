/* SPDX-License-Identifier: MIT */
/* nn/graphed/bind.c: what a call brings, as the graphs of a callable can take it: itself, or a
 * copy; and memory for what it gives back. */
#include "nn/graphed/bind.h"
#include "base/line.h"
#include "base/status.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/output_sets.h"
#include "nn/graphed/replay.h"
#include "tensor/core/batch.h"
#include "tensor/core/describe.h"
#include "tensor/core/guard.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include <phonograph/log.h>

#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COLD        __attribute__((cold, noinline))

enum {
    TRIES = 8,
    /* Gradients up to that size have memory in common, up to that sum: one that is kept keeps no
     * more than that. */
    BATCHED_EACH = 1 << 20,
    BATCHED_MOST = 4 << 20
};

/* ---- memory that no replay writes ---- */
/* All graphs of the pool may write what they were given of it, and it is free for a thread that
 * is routed there. */
static bool is_in_pool(const ph__callable *callable, const ph_tensor *x)
{
    ph_allocation found = {0};
    return x->data && ph_memory_lookup(&found, callable->set->device, x->data) == PH_OK &&
           found.pool == callable->set->pool;
}

static COLD bool begin_aside(ph_tape *tape, ph__callable *callable)
{
    ph_status status = PH_OK;
    if (!callable->aside)
        status = ph_pool_create(&callable->aside, callable->set->device, NULL);
    if (status == PH_OK)
        status = ph_pool_begin(callable->aside);
    callable->routed_aside = status == PH_OK;
    ph_tape_check(tape, status);
    return status == PH_OK;
}

static void end_batches(ph__callable *callable)
{
    for (int i = 0; i < 2; i++) {
        ph__tensor_batch_end(callable->batches[i]);
        callable->batches[i] = NULL;
    }
}

void ph__callable_end_aside(ph_tape *tape, ph__callable *callable)
{
    callable->checked_route = callable->unbatched = false;
    end_batches(callable);
    if (!UNLIKELY(callable->routed_aside))
        return;
    callable->routed_aside = false;
    ph_tape_check(tape, ph_pool_end(callable->aside));
}

/* Whether replays leave x alone until the call, and its backward, have read it. */
static bool is_safe(ph_tape *tape, const ph__callable *callable, const ph_tensor *x, size_t bytes)
{
    const ph__callable *whole = callable->of ? callable->of : callable;
    const ph__callable_graph *const callable_graphs[] = {&whole->forward, &callable->backward};
    bool written = is_in_pool(callable, x);
    for (int i = 0; i < 2 && !written; i++) {
        const ph__callable_graph *at = callable_graphs[i];
        if (at->graph && !(written = ph__callable_graph_touches(at, x->data, bytes)))
            ph_tape_check(tape,
                          ph__callable_graph_failed(
                              ph_graph_writes(&written, at->graph, x->data, bytes), callable, at));
    }
    return !written;
}

/* A copy that stands in the way itself stays taken until there is one that does not. */
static COLD ph_tensor *copy_to_buffer(ph_tape *tape, ph__callable *callable,
                                      const ph__binding *binding, ph_tensor *x)
{
    ph_tensor *made = ph_clone(tape, x);
    for (int i = 0; made && x->count > 0 && i < TRIES; i++) {
        if (is_safe(tape, callable, made, binding->bytes) || ph__tape_failed(tape))
            return made;
        if (!begin_aside(tape, callable))
            return NULL;
        made = ph_clone(tape, x);
        ph__callable_end_aside(tape, callable);
    }
    if (made && x->count > 0)
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "graphed callable '%s': no memory was found for the copy of an input that its "
                     "replays do "
                     "not write; end the scopes of its pool (ph_pool_end) around the call",
                     callable->original->name);
    return ph__tape_failed(tape) ? NULL : made;
}

/* ---- memory for gradients ---- */
/* Whether its leaf has one already, to which the pass adds it: it is dead after that. */
static bool is_added(const ph__grad_call *call, const ph__grad_input *grad_input)
{
    const ph_tensor *leaf = call->leaves[grad_input->operand];
    return call->accumulates && leaf->leaf && leaf->leaf->grad;
}

/* Gradients in one block live equally long: of others than leaves, and of leaves that get several
 * in this pass, nobody knows how long that is. */
static bool is_batched(const ph__grad_call *call, const ph__grad_input *grad_input)
{
    return call->leaves && call->sole[grad_input->operand] && grad_input->bytes > 0 &&
           grad_input->bytes <= BATCHED_EACH;
}

/* Whether this call is to make memory for it, as far as can be told before. */
static bool is_expected(const ph__grad_call *call, const ph__callable *callable,
                        const ph__grad_input *grad_input, bool added)
{
    return is_batched(call, grad_input) && is_added(call, grad_input) == added &&
           !(added && callable->set->options.gradients == PH_GRAPHED_ACCUMULATE);
}

/* For the gradient `at` and those behind it. *out NULL where it is the only one. */
static ph_status begin_batch(ph__tensor_batch **out, const ph__grad_call *call,
                             const ph__callable *callable, size_t at)
{
    const ph_tape *tape = call->tape;
    const bool added = is_added(call, &callable->grad_inputs[at]);
    size_t count = 0, bytes = 0;
    *out = NULL;
    for (size_t i = at; i < callable->grad_input_count; i++) {
        const ph__grad_input *grad_input = &callable->grad_inputs[i];
        if (i != at && !is_expected(call, callable, grad_input, added))
            continue;
        size_t rounded = (grad_input->bytes + PH__TENSOR_BATCH_ALIGNMENT - 1) &
                         ~(size_t)(PH__TENSOR_BATCH_ALIGNMENT - 1);
        if (bytes + rounded > BATCHED_MOST)
            break;
        count++;
        bytes += rounded;
    }
    return count > 1
               ? ph__tensor_batch_create(out, tape->backend, count, bytes, tape->stream, tape->key)
               : PH_OK;
}

/* Where there is no room for a block there may be some for each alone: then no block is tried again
 * in this call. */
static COLD ph_status go_without_batch(ph__callable *callable, ph_status status,
                                       const ph_error *before)
{
    if (status != PH_ERROR_DEVICE_MEMORY && status != PH_ERROR_POOL_LIMIT &&
        status != PH_ERROR_HOST_MEMORY)
        return status;
    ph__error_restore(before);
    callable->unbatched = true;
    return PH_OK;
}

/* *out NULL: it is to have memory of its own. */
static ph_status make_in_batch(ph_tensor **out, const ph__grad_call *call, ph__callable *callable,
                               size_t at, ph_dtype dtype, const ph_shape *shape)
{
    const ph__grad_input *grad_input = &callable->grad_inputs[at];
    ph__tensor_batch **batch = &callable->batches[is_added(call, grad_input)];
    *out = *batch ? ph__tensor_batch_acquire(*batch, dtype, shape, grad_input->bytes) : NULL;
    if (*out || callable->unbatched)
        return PH_OK;
    ph_error before;
    ph__error_save(&before);
    ph__tensor_batch_end(*batch);
    ph_status status = begin_batch(batch, call, callable, at);
    if (UNLIKELY(status != PH_OK))
        return go_without_batch(callable, status, &before);
    *out = *batch ? ph__tensor_batch_acquire(*batch, dtype, shape, grad_input->bytes) : NULL;
    return PH_OK;
}

static ph_status make_gradient(ph_tensor **out, const ph__grad_call *call, ph__callable *callable,
                               size_t at, ph_dtype dtype, const ph_shape *shape)
{
    ph_tape *tape = call->tape;
    const ph__grad_input *grad_input = &callable->grad_inputs[at];
    *out = NULL;
    if (is_batched(call, grad_input) && !ph__quarantine_is_on(tape->backend) && !ph__guards_on())
        PH_TRY(make_in_batch(out, call, callable, at, dtype, shape));
    return *out ? PH_OK
                : ph__tensor_fresh(out, &tape->spares, tape->backend, dtype, shape,
                                   grad_input->bytes, tape->stream, tape->key);
}

/* Out of line, so that what is usual saves few registers. */
__attribute__((noinline)) ph_tensor *ph__callable_gradient(const ph__grad_call *call,
                                                           ph__callable *callable, size_t at,
                                                           ph_dtype dtype, const ph_shape *shape)
{
    ph_tape *tape = call->tape;
    ph_tensor *x;
    ph_status status = make_gradient(&x, call, callable, at, dtype, shape);
    if (status == PH_OK && !callable->checked_route && x->count > 0) {
        callable->checked_route = true;
        if (UNLIKELY(is_in_pool(callable, x))) {
            ph_tensor_release(x);
            end_batches(callable);
            if (!begin_aside(tape, callable))
                return NULL;
            status = make_gradient(&x, call, callable, at, dtype, shape);
        }
    }
    if (status == PH_OK)
        return x;
    ph_tape_check(tape, status);
    return NULL;
}

/* Once the call has memory for several, and knows where its thread is routed to, the next tensor
 * there is all that is wanted. */
ph_tensor *ph__callable_leaf_gradient(const ph__grad_call *call, ph__callable *callable, size_t at,
                                      const ph_tensor *leaf)
{
    const size_t bytes = callable->grad_inputs[at].bytes;
    ph__tensor_batch *batch = callable->batches[0];
    ph_tensor *x = NULL;
    if (batch && callable->checked_route && bytes > 0 && bytes <= BATCHED_EACH && leaf->contiguous)
        x = ph__tensor_batch_acquire_like(batch, leaf, bytes);
    return x ? x : ph__callable_gradient(call, callable, at, leaf->dtype, &leaf->shape);
}

/* ---- what a replay may have written over ---- */
static COLD void warn_overwritten(const ph__callable *whole, size_t i, const ph_tensor *x,
                                  ph__binding_kind kind, const char *by)
{
    const bool grad_outputs = kind == PH__BINDING_GRAD_OUTPUT;
    char path[96], what[PH__DESCRIBE], text[640];
    (void)ph_structure_path(path, sizeof path,
                            grad_outputs ? whole->out_structure : whole->structure, i);
    ph__line_format(
        text, sizeof text,
        "graphed callable '%s': %s %s (%s)%s lies in the callables' own pool, where %s may have "
        "written over it since it was made or last changed in place: results may be wrong; "
        "allocate "
        "it elsewhere (outside of ph_pool_begin and ph_pool_end of that pool); said once for this "
        "callable",
        whole->original->name, grad_outputs ? "the gradient of output" : "input", path,
        ph__describe(what, x), kind == PH__BINDING_SAVED ? ", which backward reads," : "", by);
    ph_log_write(PH_LOG_WARNING, text);
}

/* Outputs and gradients of callables are marked, and refused where they were overwritten. Of what
 * was found elsewhere once nothing is asked again: its memory came with that stamp, or before. */
void ph__callable_warn_overwritten(ph__callable *callable, ph__binding *binding, const ph_tensor *x,
                                   ph__binding_kind kind)
{
    char by[96];
    ph__callable *whole = callable->of ? callable->of : callable;
    if (!x || x->overwrite_tag || x->count == 0 || x->storage->kind != PH__STORAGE_CACHED)
        return;
    const uint64_t stamp = atomic_load_explicit(&x->storage->stamp, memory_order_relaxed);
    if (!ph__shared_pool_replayed(callable->set->shared, stamp) || whole->pool_reported ||
        (binding->elsewhere == x->data && binding->elsewhere_stamp == stamp))
        return;
    if (!is_in_pool(callable, x)) {
        binding->elsewhere = x->data;
        binding->elsewhere_stamp = stamp;
    } else if (ph__shared_pool_wrote(by, sizeof by, callable->set->shared, stamp, x->data,
                                     binding->bytes)) {
        const ph__binding *first =
            kind == PH__BINDING_GRAD_OUTPUT ? callable->grad_outputs : callable->inputs;
        whole->pool_reported = true;
        warn_overwritten(whole, (size_t)(binding - first), x, kind, by);
    }
}

COLD void ph__callable_fail_grad_overwritten(ph_tape *tape, const ph__callable *callable, size_t i,
                                             const ph_tensor *grad)
{
    const ph__callable *whole = callable->of ? callable->of : callable;
    char path[96], call[224], what[160];
    (void)ph_structure_path(path, sizeof path, whole->out_structure, i);
    ph__line_format(call, sizeof call, "backward of the graphed callable '%s'",
                    whole->original->name);
    ph__line_format(what, sizeof what, "the gradient of output %s", path);
    ph_tape_check(tape, ph__fail_overwritten(grad, call, what));
}

/* ---- what comes ---- */
/* Memory of the allocator's that the device has is taken by every slot. */
static bool is_refused_by_slot(ph_tape *tape, const ph__callable *callable,
                               const ph__callable_graph *callable_graph, size_t slot,
                               const ph_tensor *x)
{
    bool accepted = true;
    ph_status status = callable_graph->gone ? PH_ERROR_STATE : PH_OK;
    if (status == PH_OK && slot != PH_SLOT_NONE)
        status = ph_graph_slot_takes(
            &accepted, callable_graph->first ? callable_graph->first : callable_graph->graph, slot,
            x->data);
    ph_tape_check(tape, ph__callable_graph_failed(status, callable, callable_graph));
    return !accepted;
}

/* The graph does not touch what it did not touch in an earlier call: these ranges stay. */
static inline bool touches(const ph__callable_graph *callable_graph, ph__binding *binding,
                           const char *data)
{
    const char **untouched = &binding->untouched[callable_graph->backward];
    if (*untouched == data)
        return false;
    if (ph__callable_graph_touches(callable_graph, data, binding->bytes))
        return true;
    *untouched = data;
    return false;
}

ph_tensor *ph__callable_bind_tensor(ph_tape *tape, ph__callable *callable,
                                    const ph__callable_graph *callable_graph, ph__binding *binding,
                                    size_t slot, ph_tensor *x)
{
    bool written = false;
    if (UNLIKELY(!x->contiguous))
        return copy_to_buffer(tape, callable, binding, x);
    if (x->count == 0)
        return x;
    if (UNLIKELY(x->storage->kind != PH__STORAGE_CACHED) &&
        is_refused_by_slot(tape, callable, callable_graph, slot, x))
        return copy_to_buffer(tape, callable, binding, x);
    if (!binding->rebound)
        return x;
    if (UNLIKELY((uintptr_t)x->data % PH__BINDING_ALIGNMENT != 0 ||
                 touches(callable_graph, binding, x->data)))
        return copy_to_buffer(tape, callable, binding, x);
    ph_status status = ph_graph_writes(&written, callable_graph->graph, x->data, binding->bytes);
    if (UNLIKELY(status != PH_OK))
        ph_tape_check(tape, ph__callable_graph_failed(status, callable, callable_graph));
    return UNLIKELY(written) ? copy_to_buffer(tape, callable, binding, x) : x;
}

/* Backward, too, must not write what it reads. */
bool ph__callable_bind(ph_tape *tape, ph__callable *callable, ph_tensor *const *in)
{
    for (size_t i = 0; i < callable->in_count && !ph__tape_failed(tape); i++) {
        ph__binding *binding = &callable->inputs[i];
        ph__callable_warn_overwritten(callable, binding, in[i], PH__BINDING_INPUT);
        ph_tensor *x = ph__callable_bind_tensor(tape, callable, &callable->forward, binding,
                                                binding->slot, in[i]);
        if (x == in[i] && binding->backward_slot != PH_SLOT_NONE)
            x = ph__callable_bind_tensor(tape, callable, &callable->backward, binding,
                                         binding->backward_slot, x);
        callable->operands[i] = x;
    }
    return !ph__tape_failed(tape);
}
