/* SPDX-License-Identifier: MIT */
/* nn/graphed/used.c: backward for the outputs that a loss used. The making captures the one for all
 * outputs. Another set of them has another backward: a missing gradient is none, and not one of
 * zeros, so that it is captured from the same history when it is first needed, and kept. */
#include "nn/graphed/used.h"
#include "base/alloc.h"
#include "base/line.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/capture.h"
#include "nn/graphed/depends.h"
#include "nn/graphed/output_sets.h"
#include "nn/graphed/recapture.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"
#include <string.h>

/* ---- names ---- */
static void add_binding_name(char *text, size_t size, const ph__callable *callable, size_t i)
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
        if (other->grad_outputs[i].used)
            add_binding_name(text, size, other->of, i);
}

/* ---- finding it ---- */
static bool is_for(const ph__callable *other, const ph__callable *callable,
                   ph_tensor *const *out_grads)
{
    for (size_t i = 0; i < callable->out_count; i++)
        if (callable->grad_outputs[i].used && other->grad_outputs[i].used != (out_grads[i] != NULL))
            return false;
    return true;
}

/* A checkpointed function would run again, as the module is now, and save nothing for gradients
 * that nobody needs. */
static bool has_changed(const ph__callable *callable)
{
    bool changed = ph_module_has_hooks(callable->original);
    for (size_t i = 0; i < callable->mode_count && !changed; i++)
        changed = callable->modes[i].module->training != callable->modes[i].training;
    for (size_t i = 0; i < callable->parameter_count && !changed; i++)
        changed =
            ph__callable_parameters(callable)[i]->requires_grad != callable->parameter_grads[i];
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

static ph_status check_may_capture(const ph__callable *callable, const char *call)
{
    size_t most = ph__callable_most_backwards(callable);
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
                       "module that is in another mode, or has hooks, or whose parameters require "
                       "other gradients, since the callable was made: run forward and backward "
                       "with these outputs once before that",
                       call);
    return PH_OK;
}

static void leave_shared_pool(void *shared)
{
    ph__shared_pool_leave(shared);
}

static ph_status add_for(ph__callable **out, ph__callable *callable, ph_tensor *const *out_grads)
{
    ph__shared_pool *shared = callable->set->shared;
    char call[224], names[128] = "";
    for (size_t i = 0; i < callable->out_count; i++)
        if (callable->grad_outputs[i].used && out_grads[i])
            add_binding_name(names, sizeof names, callable, i);
    ph__line_format(call, sizeof call, "backward of the graphed callable '%s' for its output %s",
                    callable->original->name, names);
    PH_TRY(check_may_capture(callable, call));
    if (!ph__shared_pool_enter(shared))
        return ph_fail(PH_ERROR_POOL_BUSY,
                       "%s: it is to be captured, and another thread captures into the pool of "
                       "these callables "
                       "now: run it once before threads share them, or call it again",
                       call);
    PH__UNWIND unwind = {leave_shared_pool, shared};
    ph_status status = ph_stream_is_capturing(callable->set->stream)
                           ? fail_capturing(call)
                           : ph__callable_recapture(out, callable, out_grads, call);
    unwind.undo = NULL;
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
