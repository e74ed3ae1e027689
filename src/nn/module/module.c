/* SPDX-License-Identifier: MIT */
/* nn/module/module.c: making, keeping and calling modules. */
#include "nn/module/module.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/module/called.h"
#include "nn/module/hooks.h"
#include "nn/module/marks.h"
#include "nn/module/names.h"
#include "nn/module/parameter_slots.h"
#include "tensor/autograd/marks.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/autocast.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include "tensor/tape/tape_state.h"
#include <string.h>

/* ---- checks of a description ---- */
static ph_status check_name(const char *name, const char *kind, size_t index, const char *call)
{
    if (!name || !*name)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %s %zu has no name", call, kind, index);
    if (strchr(name, '.'))
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: %s %zu is called '%s'; a name has no dot: dots join the names of children", call,
            kind, index, name);
    return PH_OK;
}

/* The i-th name of parameters, buffers and children, in this order. */
static const char *name_at(const ph_module_desc *desc, size_t i)
{
    if (i < desc->parameter_count)
        return desc->parameters[i].name;
    i -= desc->parameter_count;
    return i < desc->buffer_count ? desc->buffers[i].name
                                  : desc->children[i - desc->buffer_count].name;
}

static ph_status check_tensors(const ph_parameter *at, size_t count, const ph_device *device,
                               bool trained, const char *call)
{
    const char *kind = trained ? "parameter" : "buffer";
    for (size_t i = 0; i < count; i++) {
        PH_TRY(check_name(at[i].name, kind, i, call));
        const ph_tensor *x = at[i].tensor ? *at[i].tensor : NULL;
        if (!x)
            continue;
        PH_TRY(ph__tensor_check_there(x, call, at[i].name));
        if (ph_tensor_device(x) != device)
            return ph_fail(PH_ERROR_WRONG_DEVICE,
                           "%s: %s '%s' is a tensor of another device than the module's", call,
                           kind, at[i].name);
        if (trained && (!ph_dtype_is_floating(ph_tensor_dtype(x)) || !ph_tensor_is_leaf(x)))
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: parameter '%s' must be a leaf of a floating dtype, and is %s of %s",
                           call, at[i].name,
                           ph_tensor_is_leaf(x) ? "a leaf" : "the result of an operator",
                           ph_dtype_name(ph_tensor_dtype(x)));
    }
    return PH_OK;
}

static ph_status check_desc(ph_device *device, const ph_module_desc *desc, const char *call)
{
    if (!device)
        return ph__fail_null(call, "device");
    if (!desc)
        return ph__fail_null(call, "desc");
    if (!desc->forward)
        return ph__fail_null(call, "desc->forward");
    if (!desc->name)
        return ph__fail_null(call, "desc->name");
    if (!PH__RESERVED_OK(desc))
        return ph__fail_reserved(call, "ph_module_desc");
    if ((desc->parameter_count && !desc->parameters) || (desc->buffer_count && !desc->buffers) ||
        (desc->child_count && !desc->children))
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: a count of parameters, buffers or children is not 0, and its array is NULL", call);
    PH_TRY(check_tensors(desc->parameters, desc->parameter_count, device, true, call));
    PH_TRY(check_tensors(desc->buffers, desc->buffer_count, device, false, call));
    for (size_t i = 0; i < desc->child_count; i++) {
        PH_TRY(check_name(desc->children[i].name, "child", i, call));
        if (!desc->children[i].module)
            return ph_fail(PH_ERROR_ARGUMENT, "%s: child '%s' is NULL", call,
                           desc->children[i].name);
        if (desc->children[i].module->device != device)
            return ph_fail(PH_ERROR_WRONG_DEVICE, "%s: child '%s' is a module of another device",
                           call, desc->children[i].name);
    }
    size_t names = desc->parameter_count + desc->buffer_count + desc->child_count;
    for (size_t i = 0; i < names; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(name_at(desc, i), name_at(desc, k)) == 0)
                return ph_fail(PH_ERROR_ARGUMENT, "%s: the name '%s' is there twice", call,
                               name_at(desc, i));
    return PH_OK;
}

/* ---- making ---- */
static void drop(ph_module *module)
{
    for (size_t i = 0; i < module->parameters.count; i++) {
        ph__free(module->parameters.at[i].name);
        ph_tensor_release(module->parameters.at[i].tensor);
    }
    for (size_t i = 0; i < module->buffers.count; i++) {
        ph__free(module->buffers.at[i].name);
        ph_tensor_release(module->buffers.at[i].tensor);
    }
    for (size_t i = 0; i < module->children.count; i++) {
        ph__free(module->children.at[i].name);
        ph_module_release(module->children.at[i].module);
    }
    ph__vec_free(&module->parameters);
    ph__vec_free(&module->buffers);
    ph__vec_free(&module->children);
    ph__parameter_slots_free(module);
    ph__module_names_free(atomic_load(&module->names));
    ph__module_hooks_drop(module);
    ph_module_release(module->original);
    ph__free(module->name);
    ph_device_release(module->device);
    ph__free(module);
}

static bool copy_tensor(ph_module *module, const char *name, ph_tensor *tensor, bool trained)
{
    ph__named named = {ph__strdup(name), tensor};
    if (!named.name || !(trained ? ph__vec_push(&module->parameters, named)
                                 : ph__vec_push(&module->buffers, named))) {
        ph__free(named.name);
        return false;
    }
    ph_tensor_retain(named.tensor);
    return true;
}

static bool copy_child(ph_module *module, const char *name, ph_module *child)
{
    ph__named_module named = {ph__strdup(name), child};
    if (!named.name || !ph__vec_push(&module->children, named)) {
        ph__free(named.name);
        return false;
    }
    ph_module_retain(named.module);
    return true;
}

static bool copy_desc(ph_module *module, const ph_module_desc *desc)
{
    if (!(module->name = ph__strdup(desc->name)))
        return false;
    for (size_t i = 0; i < desc->parameter_count + desc->buffer_count; i++) {
        bool trained = i < desc->parameter_count;
        const ph_parameter *from =
            trained ? &desc->parameters[i] : &desc->buffers[i - desc->parameter_count];
        if (from->tensor && *from->tensor &&
            !copy_tensor(module, from->name, *from->tensor, trained))
            return false;
    }
    for (size_t i = 0; i < desc->child_count; i++)
        if (!copy_child(module, desc->children[i].name, desc->children[i].module))
            return false;
    return ph__parameter_slots_note(module, desc);
}

ph_status ph_module_create(ph_module **out, ph_device *device, const ph_module_desc *desc)
{
    static const char call[] = "ph_module_create";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(check_desc(device, desc, call));
    ph_module *module = ph__calloc(1, sizeof *module);
    if (!module)
        return ph__fail_host_memory(call, "a module");
    atomic_init(&module->references, 1);
    module->device = ph_device_retain(device);
    module->training = true;
    module->in_count = desc->in_count ? desc->in_count : 1;
    if (desc->in_count == PH_MODULE_NO_INPUTS)
        module->in_count = 0;
    module->out_count = desc->out_count ? desc->out_count : 1;
    ph_status status =
        copy_desc(module, desc) ? PH_OK : ph__fail_host_memory(call, "the names of a module");
    for (size_t i = 0; i < module->parameters.count && status == PH_OK; i++)
        status = ph_tensor_set_requires_grad(module->parameters.at[i].tensor, true);
    if (status != PH_OK) {
        drop(module);
        return status;
    }
    module->forward = desc->forward;
    module->self = desc->self;
    module->destroy = desc->destroy;
    *out = module;
    return PH_OK;
}

static bool copy_module(ph_module *module, const ph_module *from)
{
    bool ok = (module->name = ph__strdup(from->name)) != NULL;
    for (size_t i = 0; ok && i < from->parameters.count; i++)
        ok = copy_tensor(module, from->parameters.at[i].name, from->parameters.at[i].tensor, true);
    for (size_t i = 0; ok && i < from->buffers.count; i++)
        ok = copy_tensor(module, from->buffers.at[i].name, from->buffers.at[i].tensor, false);
    for (size_t i = 0; ok && i < from->children.count; i++)
        ok = copy_child(module, from->children.at[i].name, from->children.at[i].module);
    return ok;
}

ph_status ph__module_like(ph_module **out, ph_module *original, ph_forward_fn forward, void *self,
                          void (*destroy)(void *self), const char *call)
{
    ph_module *module = ph__calloc(1, sizeof *module);
    *out = NULL;
    if (!module)
        return ph__fail_host_memory(call, "a module");
    atomic_init(&module->references, 1);
    module->device = ph_device_retain(original->device);
    module->in_count = original->in_count;
    module->out_count = original->out_count;
    module->training = original->training;
    if (!copy_module(module, original)) {
        drop(module);
        return ph__fail_host_memory(call, "the names of a module");
    }
    module->original = ph_module_retain(original);
    module->forward = forward;
    module->self = self;
    module->destroy = destroy;
    *out = module;
    return PH_OK;
}

ph_module *ph_module_retain(ph_module *module)
{
    if (module)
        atomic_fetch_add_explicit(&module->references, 1, memory_order_relaxed);
    return module;
}

void ph_module_release(ph_module *module)
{
    if (!module || atomic_fetch_sub_explicit(&module->references, 1, memory_order_acq_rel) != 1)
        return;
    if (module->destroy)
        module->destroy(module->self);
    drop(module);
}

const char *ph_module_name(const ph_module *module)
{
    return module ? module->name : NULL;
}

void *ph_module_self(const ph_module *module)
{
    if (module && module->original) /* its own is the callable */
        return ph_module_self(module->original);
    return module ? module->self : NULL;
}

ph_device *ph_module_device(const ph_module *module)
{
    return module ? module->device : NULL;
}

/* ---- calling ---- */
static bool check_call(ph_tape *tape, const ph_module *module, ph_tensor *const *out,
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
    else if (ph_tape_device(tape) != module->device)
        ph_tape_fail(tape, PH_ERROR_WRONG_DEVICE,
                     "module %s: the tape is on another device than the module", module->name);
    else
        return true;
    return false;
}

static void run_forward(ph_tape *tape, ph_module *module, ph_tensor **out, ph_tensor *const *in)
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
    run_forward(tape, module, out, changed);
    unwind.undo = NULL;
    ph__free(changed);
    if (ph__tape_failed(tape))
        return;
    ph__module_hooks_run(tape, module, PH_MODULE_HOOK_FORWARD, out, module->out_count);
    if (ph__module_has_hook(module, PH_MODULE_HOOK_BACKWARD))
        ph__module_hooks_attach(tape, module, out, module->out_count);
}

static void release(void *module)
{
    ph_module_release(module);
}

static void call(ph_tape *tape, ph_module *module, ph_tensor **out, ph_tensor *const *in)
{
    if (module->hooks) {
        ph_module_retain(module); /* a hook may let it go */
        PH__UNWIND unwind = {release, module};
        run_hooked(tape, module, out, in);
        unwind.undo = NULL;
        ph_module_release(module);
    } else {
        run_forward(tape, module, out, in);
    }
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
        call(tape, module, out, in);
        unwind.undo = NULL;
    }
    end_mark(&m);
}

typedef struct calling {
    ph__tape_state state;
    const ph__called *outer;
} calling;

/* forward, or a hook, did not return. */
static void abandon(void *what)
{
    const calling *c = what;
    c->state.tape->called = c->outer;
    ph__tape_state_left(&c->state);
}

void ph_call_n(ph_tape *tape, ph_module *module, ph_tensor **out, size_t out_count,
               ph_tensor *const *in, size_t in_count)
{
    for (size_t i = 0; out && i < out_count; i++)
        out[i] = NULL;
    if (!check_call(tape, module, out, out_count, in, in_count))
        return;
    size_t mark = ph_tape_scope_begin(tape), depth = ph_annotation_depth();
    ph_autocast autocast = tape->autocast;
    const ph__called called = {tape->called, module};
    calling c = {.outer = called.outer};
    ph__tape_state_begin(&c.state, tape, module->name);
    PH__UNWIND unwind = {abandon, &c};
    tape->called = &called;
    tape->callbacks++; /* in and out are the tape's */
    if (tape->mark_modules)
        call_marked(tape, module, out, in);
    else
        call(tape, module, out, in);
    unwind.undo = NULL;
    tape->callbacks--;
    if (ph__tape_failed(tape))
        ph__called_failed(tape);
    tape->called = called.outer;
    ph__autocast_restore(tape, autocast);
    ph__tape_unwind_marks(tape, depth);
    ph_tape_scope_end(tape, mark, out, out_count);
    for (size_t i = 0; i < out_count && ph__tape_failed(tape); i++)
        out[i] = NULL;
}

ph_tensor *ph_call(ph_tape *tape, ph_module *module, ph_tensor *x)
{
    ph_tensor *out;
    ph_call_n(tape, module, &out, 1, &x, 1);
    return out;
}

/* ---- training or evaluation ---- */
void ph_module_train(ph_module *module, bool training)
{
    if (!module)
        return;
    module->training = training;
    if (module->original)
        ph_module_train(module->original, training);
    for (size_t i = 0; i < module->children.count; i++)
        ph_module_train(module->children.at[i].module, training);
}

bool ph_module_is_training(const ph_module *module)
{
    return module && (module->original ? module->original : module)->training;
}
