/* SPDX-License-Identifier: MIT */
/* nn/module/copy.c: copies of modules: what was copied is remembered, so that what is shared is
 * copied once, and each copy is held against its original. */
#include "base/alloc.h"
#include "base/map.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/module/layers.h"
#include "nn/module/names.h"
#include "nn/module/parameter_slots.h"
#include "nn/module/state.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include <string.h>

static const char call[] = "ph_module_copy";

struct ph_module_copier {
    ph_tape *tape; /* of the device's default stream */
    ph_module *root;
    ph__map copies;               /* original -> copy, of tensors and modules */
    PH__VEC(ph_tensor *) tensors; /* the copies, retained until the end */
    PH__VEC(ph_module *) modules;
};

static void *copy_of(const ph_module_copier *copier, const void *original)
{
    return ph__map_get(&copier->copies, (uint64_t)(uintptr_t)original);
}

static bool is_copy(const ph_module_copier *copier, const ph_tensor *x)
{
    for (size_t i = 0; i < copier->tensors.count; i++)
        if (copier->tensors.at[i] == x)
            return true;
    return false;
}

/* ---- tensors ---- */
static ph_status copy_module_tensor(ph_tensor **out, ph_module_copier *copier, ph_tensor *x)
{
    ph_tensor *copy;
    PH_TRY(ph__tensor_check_there(x, call, "a tensor of the module"));
    if (ph_tensor_device(x) != copier->root->device)
        return ph_fail(PH_ERROR_WRONG_DEVICE, "%s: a tensor is of another device than the module",
                       call);
    if (!ph_tensor_is_leaf(x))
        return ph_fail(PH_ERROR_STATE,
                       "%s: a tensor was made by an operator, and is no leaf; ph_detach gives one",
                       call);
    PH_TRY(ph_tensor_create(&copy, copier->root->device, ph_tensor_dtype(x), ph_tensor_shape(x)));
    ph_tensor_copy(copier->tape, copy, x);
    ph_status status = ph_tape_status(copier->tape);
    if (status == PH_OK && ph_tensor_requires_grad(x))
        status = ph_tensor_set_requires_grad(copy, true);
    if (status == PH_OK && !(ph__vec_reserve(&copier->tensors, 1) &&
                             ph__map_put(&copier->copies, (uint64_t)(uintptr_t)x, copy)))
        status = ph__fail_host_memory(call, "the list of its tensors");
    if (status != PH_OK) {
        ph_tensor_release(copy);
        return status;
    }
    *out = copier->tensors.at[copier->tensors.count++] = copy;
    return PH_OK;
}

ph_status ph_module_copier_tensor(ph_tensor **out, ph_module_copier *copier, ph_tensor *tensor)
{
    static const char asked[] = "ph_module_copier_tensor";
    if (!out)
        return ph__fail_null(asked, "out");
    *out = NULL;
    if (!copier)
        return ph__fail_null(asked, "copier");
    ph_tensor *copy = tensor ? copy_of(copier, tensor) : NULL;
    if (tensor && !copy)
        PH_TRY(copy_module_tensor(&copy, copier, tensor));
    *out = ph_tensor_retain(copy);
    return PH_OK;
}

/* ---- modules ---- */
/* "'block.0' (linear)", "the module itself (linear)". */
static char *copied_module_name(const ph_module_copier *copier, const ph_module *module)
{
    ph__text text = {0};
    if (module == copier->root) {
        ph__text_add(&text, "the module itself");
    } else {
        ph__text_add(&text, "'");
        (void)ph__module_add_name(&text, copier->root, module);
        ph__text_add(&text, "'");
    }
    ph__text_format(&text, " (%s)", module->name);
    return ph__text_detach(&text);
}

static ph_status refuse_module(const ph_module_copier *copier, const ph_module *module,
                               ph_status status, const char *why, const char *what)
{
    char *name = copied_module_name(copier, module);
    status = name ? ph_fail(status, "%s: %s %s%s", call, name, why, what)
                  : ph__fail_host_memory(call, "the name of a module");
    ph__free(name);
    return status;
}

/* The first name that differs, or whose tensor is none of the copies; NULL: there is none. */
static const char *find_other_tensor(const ph_module_copier *copier, const ph__named *original,
                                     size_t original_count, const ph__named *copy,
                                     size_t copy_count)
{
    for (size_t i = 0; i < original_count || i < copy_count; i++) {
        if (i >= original_count || i >= copy_count || strcmp(original[i].name, copy[i].name) != 0)
            return i < original_count ? original[i].name : copy[i].name;
        if (!is_copy(copier, copy[i].tensor) ||
            copy_of(copier, original[i].tensor) != copy[i].tensor)
            return original[i].name;
    }
    return NULL;
}

static const char *find_other_child(const ph_module_copier *copier, const ph_module *original,
                                    const ph_module *copy)
{
    size_t count = original->children.count;
    for (size_t i = 0; i < count || i < copy->children.count; i++) {
        if (i >= count || i >= copy->children.count)
            return i < count ? original->children.at[i].name : copy->children.at[i].name;
        const ph__named_module *a = &original->children.at[i], *b = &copy->children.at[i];
        if (strcmp(a->name, b->name) != 0 || copy_of(copier, a->module) != b->module)
            return a->name;
    }
    return NULL;
}

/* A copy function is the user's: its module may hold other things than the original, or the same
 * ones, which two modules would train then. */
static ph_status check_module_copy(const ph_module_copier *copier, const ph_module *original,
                                   const ph_module *copy)
{
    if (!copy || copy == original || copy->original || copy->device != original->device ||
        copy->in_count != original->in_count || copy->out_count != original->out_count)
        return refuse_module(copier, original, PH_ERROR_ARGUMENT,
                             "has a copy function that gave no module of its own kind", "");
    const char *name =
        find_other_tensor(copier, original->parameters.at, original->parameters.count,
                          copy->parameters.at, copy->parameters.count);
    if (!name)
        name = find_other_tensor(copier, original->buffers.at, original->buffers.count,
                                 copy->buffers.at, copy->buffers.count);
    if (!name)
        name = find_other_child(copier, original, copy);
    return name ? refuse_module(
                      copier, original, PH_ERROR_ARGUMENT,
                      "has a copy function that gave a module without the copier's copy of ", name)
                : PH_OK;
}

/* Parameters require a gradient once a module is made of them. */
static ph_status set_copied_modes(const ph_module *original, ph_module *copy)
{
    copy->training = original->training;
    for (size_t i = 0; i < original->parameters.count; i++)
        PH_TRY(ph_tensor_set_requires_grad(
            copy->parameters.at[i].tensor,
            ph_tensor_requires_grad(original->parameters.at[i].tensor)));
    return PH_OK;
}

static ph_status copy_whole_module(ph_module **out, ph_module_copier *copier, ph_module *module)
{
    ph_module *copy = NULL;
    if (module->original)
        return refuse_module(copier, module, PH_ERROR_STATE,
                             "is a graphed module; copy the one that it was made from", "");
    if (!module->copy)
        return refuse_module(copier, module, PH_ERROR_UNSUPPORTED,
                             "has no copy function (ph_module_desc.copy)", "");
    PH_TRY(module->copy(&copy, copier, module->self));
    ph_status status = check_module_copy(copier, module, copy);
    if (status == PH_OK)
        status = set_copied_modes(module, copy);
    if (status == PH_OK && !(ph__vec_reserve(&copier->modules, 1) &&
                             ph__map_put(&copier->copies, (uint64_t)(uintptr_t)module, copy)))
        status = ph__fail_host_memory(call, "the list of its modules");
    if (status != PH_OK) {
        if (copy != module)
            ph_module_release(copy);
        return status;
    }
    *out = copier->modules.at[copier->modules.count++] = copy;
    return PH_OK;
}

ph_status ph_module_copier_module(ph_module **out, ph_module_copier *copier, ph_module *module)
{
    static const char asked[] = "ph_module_copier_module";
    if (!out)
        return ph__fail_null(asked, "out");
    *out = NULL;
    if (!copier)
        return ph__fail_null(asked, "copier");
    ph_module *copy = module ? copy_of(copier, module) : NULL;
    if (module && !copy)
        PH_TRY(copy_whole_module(&copy, copier, module));
    *out = ph_module_retain(copy);
    return PH_OK;
}

/* ---- the whole ---- */
static void end_copier(void *what)
{
    ph_module_copier *copier = what;
    for (size_t i = 0; i < copier->modules.count; i++)
        ph_module_release(copier->modules.at[i]);
    for (size_t i = 0; i < copier->tensors.count; i++)
        ph_tensor_release(copier->tensors.at[i]);
    ph__vec_free(&copier->modules);
    ph__vec_free(&copier->tensors);
    ph__map_free(&copier->copies);
}

/* A copy function did not return. */
static void abandon_copier(void *what)
{
    ph_module_copier *copier = what;
    ph_tape_destroy(copier->tape);
    end_copier(copier);
}

ph_status ph_module_copy(ph_module **out, ph_module *module)
{
    ph_module *copy = NULL;
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!module)
        return ph__fail_null(call, "module");
    ph_module_copier copier = {.root = module};
    PH_TRY(ph__module_check_parameter_slots(module, call));
    PH_TRY(ph__state_begin(&copier.tape, module->device, call));
    PH__UNWIND unwind = {abandon_copier, &copier};
    ph_status status = ph_module_copier_module(&copy, &copier, module);
    unwind.undo = NULL;
    status = ph__layer_finish(copier.tape, status, call);
    end_copier(&copier);
    if (status == PH_OK)
        *out = copy;
    else
        ph_module_release(copy);
    return status;
}
