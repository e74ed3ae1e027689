/* SPDX-License-Identifier: MIT */
/* nn/graphed/making.c: the order of captures: each callable is probed, captured and
 * proved; what cannot be proved is copied in another round. */
#include "nn/graphed/making.h"
#include "base/alloc.h"
#include "base/line.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/capture.h"
#include "nn/graphed/finish.h"
#include "nn/graphed/outside.h"
#include "nn/graphed/planned.h"
#include "nn/graphed/prove.h"
#include "nn/graphed/stage.h"
#include "nn/graphed/tapes.h"
#include "tensor/core/storage.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"
#include <phonograph/breaks.h>

static ph__stage_room *shared_room(const ph__making *making, int direction)
{
    return making->rooms ? &making->rooms[direction] : NULL;
}

/* The callable keeps this memory where replays look at what their slots have. */
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
    ph__stage_room *room =
        callable->set->options.check_input_liveness ? NULL : shared_room(making, PH__ROOM_OUTGOING);
    ph_status status =
        ph__stage_make(&making->outgoing, room, callable->set->stream, bytes, all, NULL, 0, call);
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
    ph_status status =
        ph__stage_make(&making->inputs, shared_room(making, PH__ROOM_INPUTS), callable->set->stream,
                       bytes, callable->in_count, &making->plan, 0, call);
    ph__free(bytes);
    return status == PH_OK ? ph__making_stage_outgoing(making, call) : status;
}

/* The gradients of the outputs are known once the outputs are. */
static ph_status stage_grad_outputs(ph__making *making, ph_tensor *const *out, const char *call)
{
    ph__callable *callable = making->callable;
    if (making->outputs_known)
        return PH_OK;
    making->outputs_known = true;
    size_t *bytes = ph__calloc(callable->out_count, sizeof *bytes);
    if (!bytes)
        return ph__fail_host_memory(call, "what stands for gradients");
    callable->differentiable = false;
    for (size_t i = 0; i < callable->out_count; i++) {
        ph__binding *binding = &callable->grad_outputs[i];
        binding->used = ph__node_is_alive(out[i]->node);
        binding->dtype = out[i]->dtype;
        binding->shape = out[i]->shape;
        binding->bytes = ph_tensor_bytes(out[i]);
        bytes[i] = binding->used ? binding->bytes : 0;
        binding->force_copy = callable->copies_all;
        binding->rebound = !binding->force_copy;
        if (binding->force_copy && !binding->reason[0])
            ph__line_format(binding->reason, sizeof binding->reason, "copying was asked for");
        binding->slot = binding->backward_slot = PH_SLOT_NONE;
        callable->differentiable = callable->differentiable || binding->used;
    }
    ph_status status = PH_OK;
    if (callable->differentiable)
        status = ph__stage_make(&making->grad_outputs, shared_room(making, PH__ROOM_GRAD_OUTPUTS),
                                callable->set->stream, bytes, callable->out_count, &making->plan,
                                callable->in_count, call);
    ph__free(bytes);
    return status;
}

/* Its graphs are compared with the real ones. A failed tape is nothing for the next probe. */
static void end_probe(ph__trial *trial, bool failed)
{
    ph__trial_free(trial, false);
    trial->tape = NULL;
    if (failed)
        ph__set_drop_probe_tape(trial->callable->set);
    else
        ph__set_renew_probe_tape(trial->callable->set);
}

static void abandon_probe(void *trial)
{
    ph_error saved;
    ph__error_save(&saved);
    end_probe(trial, true);
    ph__error_restore(&saved);
}

/* Proofs of what can be rebound are about one graph. */
static void copy_for_breaks(const ph__trial *trial, bool *again)
{
    if (trial->callable->copies_all || ph_graph_segment_count(trial->forward) < 2)
        return;
    ph__callable_copy_all(trial->callable, "forward has breaks (ph_break), and so several graphs");
    *again = true;
}

static ph_status run_probe(ph__making *making, size_t number, bool *again, const char *call)
{
    ph__trial *trial = &making->probes[number];
    *trial = (ph__trial){.callable = making->callable, .probe = true, .number = number};
    PH_TRY(ph__set_probe_tape(&trial->tape, making->callable->set));
    PH__UNWIND unwind = {abandon_probe, trial};
    ph_status status = ph__trial_forward(trial, making, call);
    if (status == PH_OK && trial->writes_input)
        *again = true;
    if (status == PH_OK)
        copy_for_breaks(trial, again);
    if (status == PH_OK && !*again)
        status = stage_grad_outputs(making, trial->out, call);
    if (status == PH_OK && !*again && making->callable->differentiable &&
        (!making->callable->copies_all || ph__set_is_noted(making->callable->set)))
        status = ph__trial_backward(trial, making, call);
    making->callable->shown = making->callable->shown || trial->shown;
    ph_error failure;
    ph__error_save(&failure);
    unwind.undo = NULL;
    end_probe(trial, status != PH_OK);
    if (status != PH_OK)
        ph__error_restore(&failure);
    return status;
}

/* Where nothing is rebound one probe tells whether forward keeps to its memory, and what a plan has
 * to know. One is also
 * enough where the library alone had the addresses: docs/design/callables.md. */
static ph_status run_probes(ph__making *making, bool *again, const char *call)
{
    const ph__callable *callable = making->callable;
    bool known = callable->copies_all && callable->compared && !ph__set_is_noted(callable->set);
    size_t most = known ? 0 : 1, i = 0;
    making->probes = ph__calloc(making->plan.probes, sizeof *making->probes);
    if (!making->probes)
        return ph__fail_host_memory(call, "the probes");
    for (; i < most && !*again; i++) {
        making->probe_count = i + 1;
        PH_TRY(run_probe(making, i, again, call));
        if (callable->shown && !callable->copies_all)
            most = making->plan.probes;
    }
    return PH_OK;
}

/* The real capture gave an address away, which the first probe had not: all probes, then. */
static void probe_shown(ph__making *making, bool *again)
{
    ph__callable *callable = making->callable;
    if (!making->real.shown || callable->shown || callable->copies_all)
        return;
    callable->shown = true;
    *again = true;
}

static ph_status capture_forward(ph__making *making, bool *again, const char *call)
{
    ph__trial *real = &making->real;
    real->callable = making->callable;
    real->tape = making->callable->set->tape;
    PH_TRY(ph__trial_forward(real, making, call));
    if (ph__set_plan_broke(real->callable->set)) {
        *again = true;
        return PH_OK;
    }
    PH_TRY(ph__making_compare(making, false, call));
    making->callable->compared = true;
    copy_for_breaks(real, again);
    probe_shown(making, again);
    if (real->writes_input || *again) {
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
    if (ph__set_plan_broke(making->callable->set)) {
        *again = true;
        return PH_OK;
    }
    PH_TRY(ph__making_compare(making, true, call));
    probe_shown(making, again);
    return *again ? PH_OK : ph__making_prove_backward(making, again, call);
}

/* A number: what is allocated from now on has higher ones. */
static ph_status mark_allocations(uint64_t *out, const ph__graphed_set *set, const char *call)
{
    void *made;
    ph_allocation found = {0};
    PH_TRY(ph_malloc(&made, 1, 1, set->stream));
    ph_status status = ph_memory_lookup(&found, set->device, made);
    ph_free(made, set->stream);
    if (status != PH_OK)
        ph__error_prefix("%s", call);
    *out = found.generation;
    return status;
}

/* Memory of the device's default stream is ordered before the captures: one that waited for that
 * stream would do so in each replay, and so each use would be noted again. */
static ph_status use_parameters(const ph__callable *callable)
{
    const ph__graphed_set *set = callable->set;
    for (size_t i = 0; i < callable->parameter_count; i++)
        PH_TRY(ph__storage_use(ph__callable_parameters(callable)[i]->storage, set->stream,
                               ph__tape_key(set->tape)));
    return PH_OK;
}

static ph_status capture_all(ph__making *makings, size_t count, bool *again, const char *call)
{
    ph__graphed_set *set = makings[0].callable->set;
    PH_TRY(ph__set_make_tape(&set->tape, set));
    if (set->begun == 0)
        PH_TRY(mark_allocations(&set->begun, set, call));
    for (size_t i = 0; i < count; i++)
        PH_TRY(use_parameters(makings[i].callable));
    PH_TRY(ph__set_plan_begin(set, 2 * count, call));
    for (size_t i = 0; i < count && !*again; i++) {
        makings[i].plan_at[0] = i;
        makings[i].plan_at[1] = 2 * count - 1 - i;
        PH_TRY(stage_inputs(&makings[i], call));
        PH_TRY(run_probes(&makings[i], again, call));
    }
    ph__set_drop_probe_tape(set);
    PH_TRY(mark_allocations(&set->probed, set, call));
    if (!*again)
        PH_TRY(ph__set_plan_place(set, call));
    for (size_t i = 0; i < count && !*again; i++)
        PH_TRY(capture_forward(&makings[i], again, call));
    for (size_t i = count; i-- > 0 && !*again;)
        PH_TRY(capture_backward(&makings[i], again, call));
    if (!*again)
        PH_TRY(ph__set_plan_finish(set, call));
    for (size_t i = 0; i < count && !*again; i++)
        PH_TRY(ph__making_finish(&makings[i], call));
    return PH_OK;
}

/* The graphs of all, forward and backward; NULL: no host memory. */
static ph_graph **list_graphs(size_t *found, ph__callable *const *callables, size_t count)
{
    ph_graph **graphs = ph__calloc(2 * count, sizeof *graphs);
    *found = 0;
    for (size_t i = 0; graphs && i < count; i++) {
        graphs[(*found)++] = callables[i]->forward.graph;
        if (callables[i]->backward.graph)
            graphs[(*found)++] = callables[i]->backward.graph;
    }
    return graphs;
}

/* One behind the other, with one wait for all of them. */
static ph_status upload_all(ph__callable *const *callables, size_t count, const char *call)
{
    size_t found;
    const ph__graphed_set *set = callables[0]->set;
    const bool defer = set->options.defer_upload;
    ph_graph **graphs = defer ? NULL : list_graphs(&found, callables, count);
    if (!graphs && !defer)
        return ph__fail_host_memory(call, "the graphs to upload");
    ph_status status = graphs ? ph_graph_upload_all(graphs, found, set->stream) : PH_OK;
    ph__free(graphs);
    if (status == PH_OK)
        status = ph_stream_synchronize(set->stream);
    if (status != PH_OK)
        ph__error_prefix("%s: %s", call, defer ? "waiting for captures" : "uploading the graphs");
    return status;
}

void ph__making_clear(ph__making *making)
{
    ph__callable *callable = making->callable;
    ph_stream *stream = callable->set->stream;
    making->real.callable = callable;
    ph__trial_free(&making->real, true);
    for (size_t i = 0; i < making->probe_count; i++)
        ph__trial_free(&making->probes[i], true);
    ph__free(making->probes);
    ph__stage_free(&making->inputs, stream);
    ph__stage_free(&making->grad_outputs, stream);
    ph__stage_free(&making->outgoing, stream);
    *making = (ph__making){.callable = callable, .rooms = making->rooms};
}

typedef struct capturing {
    ph__making *makings;
    ph__callable *const *callables;
    size_t count;
    ph__stage_room rooms[PH__ROOMS];
} capturing;

static void clear_makings(capturing *c, bool failed)
{
    ph__graphed_set *set = c->callables[0]->set;
    ph__making *makings = c->makings;
    ph__callable *const *callables = c->callables;
    size_t count = c->count;
    for (size_t i = 0; i < count; i++) {
        ph__making_clear(&makings[i]);
        if (failed)
            ph__callable_reset(callables[i]);
    }
    for (int i = 0; i < PH__ROOMS; i++)
        ph__stage_room_free(&c->rooms[i], set->stream);
    ph__set_drop_probe_tape(set);
    if (failed) {
        ph_tape_destroy(set->tape);
        set->tape = NULL;
    }
    ph__set_plan_drop(set, failed);
}

/* A function of the user's did not return. */
static void abandon_captures(void *what)
{
    capturing *c = what;
    ph_error saved;
    ph__error_save(&saved);
    clear_makings(c, true);
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
    capturing c = {.makings = makings, .callables = callables, .count = count};
    for (size_t i = 0; i < count; i++)
        makings[i] = (ph__making){.callable = callables[i], .rooms = c.rooms};
    PH__UNWIND unwind = {abandon_captures, &c};
    for (bool again = true; status == PH_OK && again;) {
        again = false;
        status = capture_all(makings, count, &again, call);
        if (status == PH_OK && !again)
            status = upload_all(callables, count, call);
        ph_error failure;
        ph__error_save(&failure);
        clear_makings(&c, again || status != PH_OK);
        if (status != PH_OK)
            ph__error_restore(&failure);
    }
    unwind.undo = NULL;
    ph__free(makings);
    return status;
}
