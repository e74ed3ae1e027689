/* SPDX-License-Identifier: MIT */
/* nn/module/module.c: making and keeping modules. */
#include "nn/module/module.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/module/hooks.h"
#include "nn/module/names.h"
#include "nn/module/parameter_slots.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/relied.h"
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

static ph_status check_desc_tensors(const ph_parameter *at, size_t count, const ph_device *device,
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
    PH_TRY(check_desc_tensors(desc->parameters, desc->parameter_count, device, true, call));
    PH_TRY(check_desc_tensors(desc->buffers, desc->buffer_count, device, false, call));
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
static void drop_members(ph_module *module)
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
    ph_tensor_release(module->nonfinite);
    ph__module_hooks_drop(module);
    ph_module_release(module->original);
    ph__free(module->name);
    ph_device_release(module->device);
    ph__free(module);
}

static bool copy_named_tensor(ph_module *module, const char *name, ph_tensor *tensor, bool trained)
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
            !copy_named_tensor(module, from->name, *from->tensor, trained))
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
        drop_members(module);
        return status;
    }
    module->forward = desc->forward;
    module->self = desc->self;
    module->destroy = desc->destroy;
    module->copy = desc->copy;
    *out = module;
    return PH_OK;
}

static bool copy_module(ph_module *module, const ph_module *from)
{
    bool ok = (module->name = ph__strdup(from->name)) != NULL;
    for (size_t i = 0; ok && i < from->parameters.count; i++)
        ok = copy_named_tensor(module, from->parameters.at[i].name, from->parameters.at[i].tensor,
                               true);
    for (size_t i = 0; ok && i < from->buffers.count; i++)
        ok = copy_named_tensor(module, from->buffers.at[i].name, from->buffers.at[i].tensor, false);
    for (size_t i = 0; ok && i < from->children.count; i++)
        ok = copy_child(module, from->children.at[i].name, from->children.at[i].module);
    return ok;
}

ph_status ph__module_check_apart(ph_module *const *out, size_t out_count, ph_module *const *from,
                                 size_t count, const char *what, const char *call)
{
    const uintptr_t mine = (uintptr_t)out, theirs = (uintptr_t)from;
    if (!out || !from || mine + out_count * sizeof *out <= theirs ||
        theirs + count * sizeof *from <= mine)
        return PH_OK;
    return ph_fail(
        PH_ERROR_ARGUMENT,
        "%s: out and %s share a place, and the caller's handle there would be lost; pass "
        "another variable, and release the old handle when it is no longer needed",
        call, what);
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
        drop_members(module);
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
    drop_members(module);
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

/* ---- training or evaluation ---- */
void ph_module_train(ph_module *module, bool training)
{
    if (!module)
        return;
    if (module->training != training)
        ph__relied_changed();
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
