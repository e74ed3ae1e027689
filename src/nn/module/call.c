/* SPDX-License-Identifier: MIT */
/* nn/module/call.c: calls of modules: forward, hooks, annotations. */
#include "base/alloc.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/module/called.h"
#include "nn/module/hooks.h"
#include "nn/module/marks.h"
#include "nn/module/parameter_slots.h"
#include "tensor/autograd/marks.h"
#include "tensor/core/quarantine.h"
#include "tensor/tape/autocast.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include "tensor/tape/tape_state.h"
#include <string.h>

static bool check_module_call(ph_tape *tape, const ph_module *module, ph_tensor *const *out,
                              size_t out_count, ph_tensor *const *in, size_t in_count)
{
    if (!tape) {
        ph_ignore(ph__fail_null("ph_call", "tape"));
        return false;
    }
    if (ph__tape_failed(tape)) {
        ph__tape_skip(tape);
        return false;
    }
    if (!module)
        ph_tape_fail(tape, PH_ERROR_ARGUMENT, "ph_call: the module is NULL, and must not be");
    else if (!out || (!in && in_count > 0))
        ph_tape_fail(tape, PH_ERROR_ARGUMENT, "module %s: %s is NULL, and must not be",
                     module->name, out ? "in" : "out");
    else if (in_count != module->in_count || out_count != module->out_count)
        ph_tape_fail(
            tape, PH_ERROR_ARGUMENT,
            "module %s: takes %zu inputs and gives %zu outputs, and was called with %zu and %zu%s",
            module->name, module->in_count, module->out_count, in_count, out_count,
            in_count == 1 && out_count == 1 ? "; ph_call_n takes any number" : "");
    else if (tape->backend->device != module->device)
        ph_tape_fail(tape, PH_ERROR_WRONG_DEVICE,
                     "module %s: the tape is on another device than the module", module->name);
    else
        return true;
    return false;
}

static void run_module_forward(ph_tape *tape, ph_module *module, ph_tensor **out,
                               ph_tensor *const *in)
{
    module->forward(tape, out, in, module->self);
    if (ph__tape_failed(tape))
        return;
    for (size_t i = 0; i < module->out_count; i++)
        if (!out[i]) {
            ph_tape_fail(tape, PH_ERROR_ARGUMENT,
                         "module %s: its forward function left output %zu NULL", module->name, i);
            return;
        } else if (out[i]->gone) {
            ph_tape_check(tape, ph__quarantine_fail(out[i], module->name, "an output of forward"));
            return;
        }
}

/* Hooks before forward may change the inputs: they get a copy of the array. */
static void run_hooked(ph_tape *tape, ph_module *module, ph_tensor **out, ph_tensor *const *in)
{
    ph_tensor **changed = ph__calloc(module->in_count, sizeof *changed);
    if (!changed) {
        ph_tape_fail(tape, PH_ERROR_HOST_MEMORY, "module %s: no host memory for its inputs",
                     module->name);
        return;
    }
    PH__UNWIND unwind = {ph__free, changed};
    if (module->in_count > 0)
        memcpy(changed, in, module->in_count * sizeof *changed);
    ph__module_hooks_run(tape, module, PH_MODULE_HOOK_FORWARD_PRE, changed, module->in_count);
    run_module_forward(tape, module, out, changed);
    unwind.undo = NULL;
    ph__free(changed);
    if (ph__tape_failed(tape))
        return;
    ph__module_hooks_run(tape, module, PH_MODULE_HOOK_FORWARD, out, module->out_count);
    if (ph__module_has_hook(module, PH_MODULE_HOOK_BACKWARD))
        ph__module_hooks_attach(tape, module, out, module->out_count);
}

static void call_with_hooks(ph_tape *tape, ph_module *module, ph_tensor **out, ph_tensor *const *in)
{
    if (module->hooks)
        run_hooked(tape, module, out, in);
    else
        run_module_forward(tape, module, out, in);
}

typedef struct marked {
    ph__module_mark mark;
    ph_tape *tape;
} marked;

static void end_mark(void *what)
{
    marked *m = what;
    ph__module_mark_end(&m->mark, m->tape);
}

static void call_marked(ph_tape *tape, ph_module *module, ph_tensor **out, ph_tensor *const *in)
{
    marked m = {.tape = tape};
    if (ph__module_mark_begin(&m.mark, tape, module)) {
        PH__UNWIND unwind = {end_mark, &m};
        call_with_hooks(tape, module, out, in);
        unwind.undo = NULL;
    }
    end_mark(&m);
}

typedef struct calling {
    ph__tape_state state;
    const ph__called *outer;
    ph_module *module; /* retained: hooks and functions of the user's may let it go */
} calling;

/* forward, or a hook, did not return. */
static void abandon_call(void *what)
{
    const calling *c = what;
    c->state.tape->called = c->outer;
    ph__tape_state_left(&c->state);
    ph_module_release(c->module);
}

void ph_call_n(ph_tape *tape, ph_module *module, ph_tensor **out, size_t out_count,
               ph_tensor *const *in, size_t in_count)
{
    /* nearly always it is one */
    if (out && out_count > 0)
        out[0] = NULL;
    for (size_t i = 1; out && i < out_count; i++)
        out[i] = NULL;
    if (!check_module_call(tape, module, out, out_count, in, in_count))
        return;
    size_t mark = ph_tape_scope_begin(tape);
    ph_autocast autocast = tape->autocast;
    const ph__called called = {tape->called, module};
    calling c = {.outer = called.outer, .module = ph_module_retain(module)};
    ph__tape_state_begin(&c.state, tape, module->name);
    PH__UNWIND unwind = {abandon_call, &c};
    tape->called = &called;
    tape->callbacks++; /* in and out are the tape's */
    if (tape->mark_modules)
        call_marked(tape, module, out, in);
    else
        call_with_hooks(tape, module, out, in);
    unwind.undo = NULL;
    tape->callbacks--;
    if (ph__tape_failed(tape))
        ph__called_failed(tape);
    tape->called = called.outer;
    ph__autocast_restore(tape, autocast);
    ph__tape_unwind_marks(tape, c.state.marks);
    ph_tape_scope_end(tape, mark, out, out_count);
    for (size_t i = 0; i < out_count && ph__tape_failed(tape); i++)
        out[i] = NULL;
    ph_module_release(module);
}

ph_tensor *ph_call(ph_tape *tape, ph_module *module, ph_tensor *x)
{
    ph_tensor *out;
    ph_call_n(tape, module, &out, 1, &x, 1);
    return out;
}
