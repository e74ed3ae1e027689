/* SPDX-License-Identifier: MIT */
/* nn/graphed/recapture.c: a backward for some of a callable's outputs: the history of the captured
 * forward is gone through once more. What the graph reads of the inputs it copies first. */
#include "nn/graphed/recapture.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/capture.h"
#include "nn/graphed/finish.h"
#include "nn/graphed/making.h"
#include "nn/graphed/others.h"
#include "nn/graphed/output_sets.h"
#include "nn/graphed/prove.h"
#include "nn/graphed/replay.h"
#include "nn/graphed/stage.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/bundle.h"
#include "tensor/tape/region.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include <string.h>

enum {
    STAND_ALIGNMENT = 512,
    TRIES = 8
};

/* ---- where inputs stand ---- in the captured forward at addresses where nothing is. A backward
 * that copies them needs memory, and finds them by the handles that the history has. */
static bool is_copied(const ph__binding *binding)
{
    return binding->rebound && binding->backward_slot != PH_SLOT_NONE && binding->bytes > 0;
}

static size_t stand_in_bytes(size_t bytes)
{
    return (bytes + STAND_ALIGNMENT - 1) / STAND_ALIGNMENT * STAND_ALIGNMENT;
}

static bool was_stood_on(const ph__callable *callable, const char *block, size_t bytes)
{
    for (size_t i = 0; i < callable->in_count; i++) {
        const ph__binding *binding = &callable->inputs[i];
        if (binding->stood && block < binding->stood + binding->bytes &&
            binding->stood < block + bytes)
            return true;
    }
    return false;
}

static ph_status fail_room(const char *call)
{
    return ph_fail(PH_ERROR_DEVICE_MEMORY,
                   "%s: no memory was found beside where inputs stood in the capture", call);
}

/* None of it is where an input stood in the capture: what still points there is told by that. */
static ph_status find_room(void **out, const ph__callable *callable, size_t bytes, const char *call)
{
    void *tried[TRIES];
    size_t count = 0;
    ph_status status = PH_OK;
    *out = NULL;
    while (!*out && status == PH_OK && count < TRIES) {
        status = ph_malloc(&tried[count], bytes, 1, callable->set->stream);
        if (status == PH_OK && !was_stood_on(callable, tried[count], bytes))
            *out = tried[count];
        else if (status == PH_OK)
            count++;
    }
    while (count > 0)
        ph_free(tried[--count], callable->set->stream);
    return status == PH_OK && !*out ? fail_room(call) : status;
}

static void move_saved(ph_tape *tape, const ph__storage *from, char *to)
{
    for (size_t n = 0; n < tape->nodes.count; n++) {
        const ph__node *node = tape->nodes.at[n];
        for (size_t k = 0; k < node->saved_count; k++)
            ph__tensor_move(node->saved[k], from, to);
    }
    ph__regions_move(tape, from, to);
}

/* Once, before the first capture of another backward. */
static ph_status give_room(ph__callable *callable, const char *call)
{
    size_t bytes = 0, at = 0;
    for (size_t i = 0; i < callable->in_count; i++)
        if (is_copied(&callable->inputs[i]))
            bytes += stand_in_bytes(callable->inputs[i].bytes);
    if (callable->stand_block || bytes == 0)
        return PH_OK;
    PH_TRY(find_room(&callable->stand_block, callable, bytes, call));
    for (size_t i = 0; i < callable->in_count; i++) {
        ph_tensor *x = callable->stand_ins[i];
        char *to = (char *)callable->stand_block + at;
        if (!is_copied(&callable->inputs[i]))
            continue;
        move_saved(callable->set->tape, x->storage, to);
        ph__tensor_move(x, x->storage, to);
        x->storage->data = to;
        x->storage->stands_in = false;
        at += stand_in_bytes(callable->inputs[i].bytes);
    }
    return PH_OK;
}

static bool allocate_other(ph__callable *other)
{
    size_t all = other->in_count + other->parameter_count, bundles = all / PH__BUNDLE_MAX + 1;
    other->inputs = ph__calloc(other->in_count + 1, sizeof *other->inputs);
    other->grad_outputs = ph__calloc(other->out_count, sizeof *other->grad_outputs);
    other->grad_inputs = ph__calloc(all + 1, sizeof *other->grad_inputs);
    other->grad_input_order = ph__calloc(all + 1, sizeof *other->grad_input_order);
    other->ops = ph__calloc(bundles, PH__BUNDLE_MAX);
    other->op_slots = ph__calloc(bundles, sizeof *other->op_slots);
    return other->inputs && other->grad_outputs && other->grad_inputs && other->grad_input_order &&
           other->ops && other->op_slots;
}

/* All that comes is copied: what would have to be proved is where a second forward finds its
 * inputs, and there is none. */
static void describe_bindings(ph__callable *other, ph_tensor *const *out_grads)
{
    const ph__callable *callable = other->of;
    for (size_t i = 0; i < other->in_count; i++) {
        ph__binding *binding = &other->inputs[i];
        *binding = callable->inputs[i];
        binding->used = is_copied(binding);
        binding->rebound = false;
        binding->slot = binding->backward_slot = PH_SLOT_NONE;
        binding->buffer = NULL;
    }
    for (size_t i = 0; i < other->out_count; i++) {
        ph__binding *binding = &other->grad_outputs[i];
        *binding = callable->grad_outputs[i];
        binding->used = binding->used && out_grads[i];
        binding->rebound = false;
        binding->slot = PH_SLOT_NONE;
        binding->buffer = NULL;
    }
}

static ph_status make_other(ph__callable **out, ph__callable *callable, ph_tensor *const *out_grads,
                            const char *call)
{
    ph__callable *other = ph__calloc(1, sizeof *other);
    *out = other;
    if (!other)
        return ph__fail_host_memory(call, "another backward");
    other->of = callable;
    other->set = callable->set;
    other->original = callable->original;
    other->in_count = callable->in_count;
    other->out_count = callable->out_count;
    other->parameter_count = callable->parameter_count;
    other->operands = callable->operands;
    other->parameter_grads = callable->parameter_grads;
    other->values = callable->values;
    other->backward.backward = true;
    memcpy(other->backward.name, callable->backward.name, sizeof other->backward.name);
    if (!allocate_other(other))
        return ph__fail_host_memory(call, "another backward");
    describe_bindings(other, out_grads);
    return PH_OK;
}

/* ---- its capture ---- */
static ph_status stage_bindings(ph__stage *stage, const ph__callable *other,
                                const ph__binding *bindings, size_t count, const char *call)
{
    size_t *bytes = ph__calloc(count + 1, sizeof *bytes);
    if (!bytes)
        return ph__fail_host_memory(call, "what stands for its memory");
    for (size_t i = 0; i < count; i++)
        bytes[i] = bindings[i].used ? bindings[i].bytes : 0;
    ph_status status = ph__stage_make(stage, NULL, other->set->stream, bytes, count, NULL, 0, call);
    ph__free(bytes);
    return status;
}

/* Where gradients of outputs are copied to: beside where inputs stood, too. */
static ph_status make_buffer(ph__binding *binding, const ph__callable *other, const char *call)
{
    ph_tape *tape = other->set->tape;
    for (int i = 0; i < TRIES && !binding->buffer; i++) {
        ph_tensor *x = ph_empty(tape, binding->dtype, binding->shape);
        PH_TRY(ph_tape_status(tape));
        if (!was_stood_on(other->of, x->storage->data, x->storage->bytes))
            binding->buffer = ph_tensor_retain(x);
    }
    return binding->buffer ? PH_OK : fail_room(call);
}

static ph_status make_buffers(ph__callable *other, const char *call)
{
    size_t mark = ph_tape_scope_begin(other->set->tape);
    ph_status status = PH_OK;
    for (size_t i = 0; i < other->out_count && status == PH_OK; i++)
        if (other->grad_outputs[i].used)
            status = make_buffer(&other->grad_outputs[i], other, call);
    ph_tape_scope_end(other->set->tape, mark, NULL, 0);
    if (ph__tape_failed(other->set->tape))
        ph__tape_forgive(other->set->tape);
    return status;
}

static bool copy_handles(ph_tensor ***out, ph_tensor *const *from, size_t count)
{
    *out = ph__calloc(count + 1, sizeof **out);
    for (size_t i = 0; *out && i < count; i++)
        (*out)[i] = ph_tensor_retain(from[i]);
    return *out != NULL;
}

typedef struct going_back {
    ph_tape *tape;
    size_t mark;
} going_back;

static void end_going_back(void *what)
{
    const going_back *g = what;
    ph_error saved;
    ph__error_save(&saved);
    g->tape->recaptures = false;
    ph_tape_scope_end(g->tape, g->mark, NULL, 0);
    if (ph__tape_failed(g->tape))
        ph__tape_forgive(g->tape);
    ph__error_restore(&saved);
}

/* The history of the captured forward is gone through once more: parameters have other versions by
 * now, and hooks see the gradients of calls. */
static ph_status go_back(ph__making *making, const char *call)
{
    const ph__callable *other = making->callable;
    ph__trial *trial = &making->real;
    ph_tape *tape = other->set->tape;
    trial->callable = making->callable;
    trial->tape = tape;
    trial->grad_outputs = ph__calloc(other->out_count, sizeof *trial->grad_outputs);
    if (!copy_handles(&trial->in, other->of->stand_ins, other->in_count) ||
        !copy_handles(&trial->out, other->of->outputs, other->out_count) || !trial->grad_outputs)
        return ph__fail_host_memory(call, "another capture");
    going_back g = {tape, ph_tape_scope_begin(tape)};
    PH__UNWIND unwind = {end_going_back, &g};
    tape->recaptures = true;
    ph_status status = ph__trial_backward(trial, making, call);
    unwind.undo = NULL;
    end_going_back(&g);
    return status;
}

static bool is_saved(const ph__callable *callable, const void *base)
{
    const ph__output_set *saved = callable->saved_set;
    for (size_t i = 0; i < saved->range_count; i++)
        if ((uintptr_t)base - saved->ranges[i].begin <
            saved->ranges[i].end - saved->ranges[i].begin)
            return true;
    return false;
}

/* In the place of an input of the captured forward, where nobody puts it. */
static bool is_lost(const ph__callable *callable, const ph_word *word)
{
    for (size_t i = 0; i < callable->in_count; i++) {
        const ph__binding *binding = &callable->inputs[i];
        if (binding->rebound && binding->stood &&
            word->value - (uintptr_t)binding->stood < binding->bytes)
            return true;
    }
    return false;
}

/* Calls keep for backward only the memory that the backward of all outputs reads. Memory that the
 * capture received is its own, whoever had it before. */
static ph_status check_word(const ph__callable *other, ph_graph *graph, const ph_node_info *info,
                            const ph_word *word, const char *call)
{
    bool own = false, written = false, lost = is_lost(other->of, word);
    if (!lost && (word->kind == PH_WORD_VALUE || !word->base))
        return PH_OK;
    PH_TRY(ph_graph_writes(&own, graph, (const void *)(uintptr_t)word->value, 1));
    PH_TRY(ph__callable_graph_failed(ph_graph_writes(&written, other->of->forward.graph,
                                                     (const void *)(uintptr_t)word->value, 1),
                                     other->of, &other->of->forward));
    if (own || (!lost && (!written || is_saved(other->of, word->base))))
        return PH_OK;
    return ph_fail(PH_ERROR_UNSUPPORTED,
                   "%s: node %zu (%s) reads what backward of all outputs does not, so that calls "
                   "have not kept "
                   "it; let that backward read it too, or call the original module",
                   call, info->index, info->name);
}

/* Copies in and out are ours, and slots. */
static ph_status check_reads(const ph__callable *other, ph_graph *graph, const char *call)
{
    const ph_record *record;
    ph_node_info info;
    ph_word word;
    PH_TRY(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        PH_TRY(ph_record_node(&info, record, i));
        if (strcmp(info.name, PH__BUNDLE_KERNEL) == 0)
            continue;
        for (size_t k = 0; k < info.word_count; k++) {
            PH_TRY(ph_record_word(&word, record, i, k));
            PH_TRY(check_word(other, graph, &info, &word, call));
        }
    }
    return PH_OK;
}

static ph_status capture_other(ph__making *making, const char *call)
{
    ph__callable *other = making->callable;
    bool again = false;
    PH_TRY(give_room(other->of, call));
    PH_TRY(stage_bindings(&making->inputs, other, other->inputs, other->in_count, call));
    PH_TRY(
        stage_bindings(&making->grad_outputs, other, other->grad_outputs, other->out_count, call));
    PH_TRY(ph__making_stage_outgoing(making, call));
    PH_TRY(make_buffers(other, call));
    PH_TRY(go_back(making, call));
    PH_TRY(check_reads(other, making->real.backward, call));
    PH_TRY(ph__making_prove_backward(making, &again, call));
    return ph__making_finish_backward(making, call);
}

/* A function of the user's did not return. */
static void abandon_recapture(void *what)
{
    ph__making *making = what;
    ph__callable *other = making->callable;
    ph_error saved;
    ph__error_save(&saved);
    ph__making_clear(making);
    ph__callable_drop_other(other);
    ph__error_restore(&saved);
}

ph_status ph__callable_recapture(ph__callable **out, ph__callable *callable,
                                 ph_tensor *const *out_grads, const char *call)
{
    ph__callable *other;
    ph_status status = make_other(&other, callable, out_grads, call);
    if (status == PH_OK) {
        ph__making making = {.callable = other};
        PH__UNWIND unwind = {abandon_recapture, &making};
        status = capture_other(&making, call);
        unwind.undo = NULL;
        ph_error failure;
        ph__error_save(&failure);
        ph__making_clear(&making);
        if (status != PH_OK)
            ph__error_restore(&failure);
    }
    if (status != PH_OK) {
        ph__callable_drop_other(other);
        return status;
    }
    other->next = callable->others;
    callable->others = other;
    callable->other_count++;
    *out = other;
    return PH_OK;
}
