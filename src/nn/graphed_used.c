/* SPDX-License-Identifier: MIT */
/* nn/graphed_used.c: backward for the outputs that a loss used. The making captures the one for all
 * outputs. Another set of them has another backward: a missing gradient is none, and not one of
 * zeros, so that it is captured from the same history when it is first needed, and kept. */
#include "base/alloc.h"
#include "base/line.h"
#include "base/status.h"
#include "nn/graphed_capture.h"
#include <string.h>

enum {
    DEFAULT_BACKWARDS = 8
};

static size_t most_backwards(const ph__callable *callable)
{
    size_t most = callable->set->options.max_backwards;
    return most ? most : DEFAULT_BACKWARDS;
}

/* ---- what the making keeps ---- */
static void note_leaf(const ph__callable *callable, bool *row, ph_tensor *const *in,
                      const ph_tensor *leaf)
{
    size_t i = 0;
    while (i < callable->in_count && in[i] != leaf)
        i++;
    row[i] = true;
}

/* Down from the output's node, newest first. reached: a flag for each node of the trial, false on
 * entry. */
static void note_row(const ph__trial *trial, const ph_tensor *out, bool *row, bool *reached)
{
    size_t first = trial->first_node;
    reached[out->node->index - first] = true;
    for (size_t n = out->node->index + 1; n-- > first;) {
        const ph__node *node = trial->tape->nodes.at[n];
        for (size_t k = 0; reached[n - first] && k < node->in_count; k++) {
            const ph__edge *edge = &node->edges[k];
            if (edge->leaf)
                note_leaf(trial->callable, row, trial->in, edge->leaf);
            else if (edge->node)
                reached[edge->node->index - first] = true;
        }
    }
}

static ph_status note_depends(const ph__trial *trial, const char *call)
{
    const ph__callable *callable = trial->callable;
    size_t nodes = trial->tape->nodes.count - trial->first_node;
    for (size_t o = 0; o < callable->out_count; o++) {
        bool *row = callable->depends + o * (callable->in_count + 1);
        memset(row, 0, (callable->in_count + 1) * sizeof *row);
        if (!callable->incoming[o].used)
            continue;
        bool *reached = ph__calloc(nodes, sizeof *reached);
        if (!reached)
            return ph__fail_host_memory(call, "what its outputs depend on");
        note_row(trial, callable->outputs[o], row, reached);
        ph__free(reached);
    }
    return PH_OK;
}

bool ph__callable_has_history(const ph__callable *callable, size_t output, ph_tensor *const *in)
{
    const bool *row = callable->depends + output * (callable->in_count + 1);
    if (row[callable->in_count])
        return true;
    for (size_t i = 0; i < callable->in_count; i++)
        if (row[i] && ph__needs_grad(in[i]))
            return true;
    return false;
}

/* With one output there is one set. */
static bool may_need_others(const ph__callable *callable)
{
    size_t used = 0;
    for (size_t i = 0; i < callable->out_count; i++)
        used += callable->incoming[i].used;
    return callable->backward.graph && used > 1 && most_backwards(callable) > 1;
}

ph_status ph__making_keep(ph__making *making, const char *call)
{
    ph__callable *callable = making->callable;
    PH_TRY(note_depends(&making->real, call));
    if (!may_need_others(callable))
        return PH_OK;
    callable->stand_ins = making->real.in;
    callable->stand_block = making->inputs.block;
    callable->stand_key = 0;
    making->real.in = NULL;
    making->inputs.block = NULL;
    return PH_OK;
}

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

/* ---- another backward ---- */
static void drop(ph__callable *other)
{
    if (!other)
        return;
    ph__program_leave(&other->backward, other->set->shared);
    ph_graph_destroy(other->backward.graph);
    ph__values_release(other->grad_values);
    for (size_t i = 0; i < other->exit_count; i++)
        ph_tensor_release(other->exits[i].grad);
    for (size_t i = 0; other->incoming && i < other->out_count; i++)
        ph_tensor_release(other->incoming[i].buffer);
    ph__free(other->inputs);
    ph__free(other->incoming);
    ph__free(other->exits);
    ph__free(other->exit_order);
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
        drop(other);
    }
    callable->other_count = 0;
}

static bool allocate(ph__callable *other)
{
    size_t all = other->in_count + other->parameter_count, bundles = all / PH__BUNDLE_MAX + 1;
    other->inputs = ph__calloc(other->in_count + 1, sizeof *other->inputs);
    other->incoming = ph__calloc(other->out_count, sizeof *other->incoming);
    other->exits = ph__calloc(all + 1, sizeof *other->exits);
    other->exit_order = ph__calloc(all + 1, sizeof *other->exit_order);
    other->ops = ph__calloc(bundles, PH__BUNDLE_MAX);
    other->op_slots = ph__calloc(bundles, sizeof *other->op_slots);
    return other->inputs && other->incoming && other->exits && other->exit_order && other->ops &&
           other->op_slots;
}

/* All that comes is copied: what would have to be proved is where a second forward finds its
 * inputs, and there is none. */
static void describe_ports(ph__callable *other, ph_tensor *const *out_grads)
{
    const ph__callable *callable = other->of;
    for (size_t i = 0; i < other->in_count; i++) {
        ph__port *port = &other->inputs[i];
        *port = callable->inputs[i];
        port->used = port->rebound && port->backward_slot != PH_SLOT_NONE;
        port->rebound = false;
        port->slot = port->backward_slot = PH_SLOT_NONE;
        port->buffer = NULL;
    }
    for (size_t i = 0; i < other->out_count; i++) {
        ph__port *port = &other->incoming[i];
        *port = callable->incoming[i];
        port->used = port->used && out_grads[i];
        port->rebound = false;
        port->slot = PH_SLOT_NONE;
        port->buffer = NULL;
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
    if (!allocate(other))
        return ph__fail_host_memory(call, "another backward");
    describe_ports(other, out_grads);
    return PH_OK;
}

/* ---- its capture ---- */
static ph_status stage_ports(ph__stage *stage, const ph__callable *other, const ph__port *ports,
                             size_t count, const char *call)
{
    size_t *bytes = ph__calloc(count + 1, sizeof *bytes);
    if (!bytes)
        return ph__fail_host_memory(call, "what stands for its memory");
    for (size_t i = 0; i < count; i++)
        bytes[i] = ports[i].used ? ports[i].bytes : 0;
    ph_status status = ph__stage_make(stage, other->set->stream, bytes, count, false, NULL, call);
    ph__free(bytes);
    return status;
}

static bool copy_handles(ph_tensor ***out, ph_tensor *const *from, size_t count)
{
    *out = ph__calloc(count + 1, sizeof **out);
    for (size_t i = 0; *out && i < count; i++)
        (*out)[i] = ph_tensor_retain(from[i]);
    return *out != NULL;
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
    trial->incoming = ph__calloc(other->out_count, sizeof *trial->incoming);
    if (!copy_handles(&trial->in, other->of->stand_ins, other->in_count) ||
        !copy_handles(&trial->out, other->of->outputs, other->out_count) || !trial->incoming)
        return ph__fail_host_memory(call, "another capture");
    size_t mark = ph_tape_scope_begin(tape);
    tape->recaptures = true;
    ph_status status = ph__trial_backward(trial, making, call);
    tape->recaptures = false;
    ph_tape_scope_end(tape, mark, NULL, 0);
    if (ph__tape_failed(tape))
        ph__tape_forgive(tape);
    return status;
}

static bool is_saved(const ph__callable *callable, const void *base)
{
    const ph__values *saved = callable->saved_values;
    for (size_t i = 0; i < saved->range_count; i++)
        if ((uintptr_t)base - saved->ranges[i].begin <
            saved->ranges[i].end - saved->ranges[i].begin)
            return true;
    return false;
}

/* The index of the input that the word is in, which nobody copies; in_count: none. */
static size_t missed_input(const ph__callable *other, const ph_word *word)
{
    size_t i = 0;
    for (; i < other->in_count; i++) {
        const ph_tensor *x = other->of->stand_ins[i];
        if (other->of->inputs[i].rebound && !other->inputs[i].used &&
            (uintptr_t)word->value - (uintptr_t)x->data < other->inputs[i].bytes)
            break;
    }
    return i;
}

/* What calls keep for backward is what the one of all outputs reads. Memory that the capture was
 * given is its own, whoever had it before. */
static ph_status check_word(const ph__callable *other, ph_graph *graph, const ph_node_info *info,
                            const ph_word *word, const char *call)
{
    bool own = false, written = false;
    if (word->kind == PH_WORD_VALUE || !word->base)
        return PH_OK;
    PH_TRY(ph_graph_writes(&own, graph, (const void *)(uintptr_t)word->value, 1));
    PH_TRY(ph_graph_writes(&written, other->of->forward.graph, (const void *)(uintptr_t)word->value,
                           1));
    if (missed_input(other, word) == other->in_count &&
        (own || !written || is_saved(other->of, word->base)))
        return PH_OK;
    return ph_fail(PH_ERROR_UNSUPPORTED,
                   "%s: node %zu (%s) reads what backward of all outputs does not, so that calls "
                   "have not kept "
                   "it; let that backward read it too, or call the original module",
                   call, info->index, info->name);
}

static ph_status check_reads(const ph__callable *other, ph_graph *graph, const char *call)
{
    const ph_record *record;
    ph_node_info info;
    ph_word word;
    PH_TRY(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        PH_TRY(ph_record_node(&info, record, i));
        for (size_t k = 0; k < info.word_count; k++) {
            PH_TRY(ph_record_word(&word, record, i, k));
            PH_TRY(check_word(other, graph, &info, &word, call));
        }
    }
    return PH_OK;
}

static ph_status capture(ph__making *making, const char *call)
{
    ph__callable *other = making->callable;
    bool again = false;
    PH_TRY(stage_ports(&making->inputs, other, other->inputs, other->in_count, call));
    PH_TRY(stage_ports(&making->incoming, other, other->incoming, other->out_count, call));
    PH_TRY(ph__making_stage_outgoing(making, call));
    PH_TRY(go_back(making, call));
    PH_TRY(check_reads(other, making->real.backward, call));
    PH_TRY(ph__making_prove_backward(making, &again, call));
    return ph__making_finish_backward(making, call);
}

static ph_status add(ph__callable **out, ph__callable *callable, ph_tensor *const *out_grads,
                     const char *call)
{
    ph__callable *other;
    ph_status status = make_other(&other, callable, out_grads, call);
    if (status == PH_OK) {
        ph__making making = {.callable = other};
        status = capture(&making, call);
        ph_error failure;
        ph__error_save(&failure);
        ph__making_clear(&making);
        if (status != PH_OK)
            ph__error_restore(&failure);
    }
    if (status != PH_OK) {
        drop(other);
        return status;
    }
    other->next = callable->others;
    callable->others = other;
    callable->other_count++;
    *out = other;
    return PH_OK;
}

/* ---- names ---- */
static void add_name(char *text, size_t size, const ph__callable *callable, size_t i)
{
    char path[96];
    size_t length = strlen(text);
    (void)ph_structure_path(path, sizeof path, callable->out_structure, i);
    if (length + strlen(path) + sizeof ", ..." <= size)
        ph__line_format(text + length, size - length, "%s%s", length ? ", " : "", path);
    else if (length < 3 || strcmp(text + length - 3, "...") != 0)
        ph__line_format(text + length, size - length, ", ...");
}

void ph__callable_name_used(char *text, size_t size, const ph__callable *other)
{
    text[0] = '\0';
    for (size_t i = 0; i < other->out_count; i++)
        if (other->incoming[i].used)
            add_name(text, size, other->of, i);
}

/* ---- finding it ---- */
static bool is_for(const ph__callable *other, const ph__callable *callable,
                   ph_tensor *const *out_grads)
{
    for (size_t i = 0; i < callable->out_count; i++)
        if (callable->incoming[i].used && other->incoming[i].used != (out_grads[i] != NULL))
            return false;
    return true;
}

/* A checkpointed function would run again, as the module is now. */
static bool has_changed(const ph__callable *callable)
{
    bool changed = ph_module_has_hooks(callable->original);
    for (size_t i = 0; i < callable->mode_count && !changed; i++)
        changed = callable->modes[i].module->training != callable->modes[i].training;
    return changed && callable->set->tape->regions.count > 0;
}

static ph_status fail_capturing(const char *call)
{
    return ph_fail(PH_ERROR_CAPTURE,
                   "%s: the first backward of these outputs alone captures a graph of its own, and "
                   "cannot while "
                   "another capture is open: run forward and backward with them once before that "
                   "capture begins",
                   call);
}

static ph_status check(const ph__callable *callable, const char *call)
{
    size_t most = most_backwards(callable);
    if (callable->other_count + 1 >= most)
        return ph_fail(
            PH_ERROR_STATE,
            "%s: these outputs alone need a backward graph of their own, and there are %zu "
            "already, "
            "as many as ph_graphed_options.max_backwards allows: make the callable with a larger "
            "one, or call the original module",
            call, callable->other_count + 1);
    if (ph_device_is_capturing(callable->set->device))
        return fail_capturing(call);
    if (has_changed(callable))
        return ph_fail(PH_ERROR_STATE,
                       "%s: it is to be captured, and a checkpointed function would run again in a "
                       "module that "
                       "is in another mode, or has hooks, since the callable was made: run forward "
                       "and backward "
                       "with these outputs once before that",
                       call);
    return PH_OK;
}

static ph_status add_for(ph__callable **out, ph__callable *callable, ph_tensor *const *out_grads)
{
    ph__shared_pool *shared = callable->set->shared;
    char call[224], names[128] = "";
    for (size_t i = 0; i < callable->out_count; i++)
        if (callable->incoming[i].used && out_grads[i])
            add_name(names, sizeof names, callable, i);
    ph__line_format(call, sizeof call, "backward of the graphed callable '%s' for its output %s",
                    callable->original->name, names);
    PH_TRY(check(callable, call));
    if (!ph__shared_pool_enter(shared))
        return ph_fail(PH_ERROR_POOL_BUSY,
                       "%s: it is to be captured, and another thread captures into the pool of "
                       "these callables "
                       "now: run it once before threads share them, or call it again",
                       call);
    ph_status status = ph_stream_is_capturing(callable->set->stream)
                           ? fail_capturing(call)
                           : add(out, callable, out_grads, call);
    ph__shared_pool_leave(shared);
    return status;
}

ph__callable *ph__callable_used(ph_tape *tape, ph__callable *callable, ph_tensor *const *out_grads)
{
    if (is_for(callable, callable, out_grads))
        return callable;
    ph__callable *other = callable->others;
    while (other && !is_for(other, callable, out_grads))
        other = other->next;
    if (!other)
        ph_tape_check(tape, add_for(&other, callable, out_grads));
    return ph__tape_failed(tape) ? NULL : other;
}
