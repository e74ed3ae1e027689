/* SPDX-License-Identifier: MIT */
/* nn/module/state.c: a module's parameters and buffers to and from safetensors. */
#include "nn/module/state.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/module/layers.h"
#include "nn/module/module.h"
#include "nn/module/parameter_slots.h"
#include "nn/module/traverse.h"
#include "tensor/core/tensor.h"
#include "tensor/files/safetensors.h"
#include "tensor/tape/tape.h"
#include <string.h>

typedef struct state {
    PH__VEC(ph_named_tensor) tensors; /* names are owned */
    bool failed;
} state;

static bool collect_entry(const ph__entry *entry, void *user)
{
    state *s = user;
    if (!entry->tensor)
        return true;
    ph_named_tensor named = {ph__strdup(entry->name), entry->tensor};
    if (named.name && ph__vec_push(&s->tensors, named))
        return true;
    ph__free((void *)(uintptr_t)named.name);
    s->failed = true;
    return false;
}

static void state_free(state *s)
{
    for (size_t i = 0; i < s->tensors.count; i++)
        ph__free((void *)(uintptr_t)s->tensors.at[i].name);
    ph__vec_free(&s->tensors);
}

static ph_status state_of(state *s, const ph_module *module, const char *path, const char *call)
{
    *s = (state){.failed = false};
    if (!module)
        return ph__fail_null(call, "module");
    if (!path)
        return ph__fail_null(call, "path");
    PH_TRY(ph__module_check_parameter_slots(module, call));
    if (ph__module_walk(module, collect_entry, s))
        return PH_OK;
    state_free(s);
    return ph__fail_host_memory(call, "the names of a module's tensors");
}

ph_status ph_module_save(ph_module *module, const char *path)
{
    static const char call[] = "ph_module_save";
    state s;
    ph_tape *tape;
    PH_TRY(state_of(&s, module, path, call));
    ph_status status = ph__state_begin(&tape, module->device, call);
    if (status == PH_OK)
        status = ph__layer_finish(
            tape, ph_safetensors_write(tape, path, s.tensors.at, s.tensors.count), call);
    state_free(&s);
    return status;
}

/* ---- loading ---- what does not match goes into one list of words. */
static void add_mismatch(ph__text *words, const char *format, const char *name)
{
    ph__text_add(words, words->length ? ", " : "");
    ph__text_format(words, format, name);
}

static void add_shape(ph__text *words, ph_dtype dtype, const ph_shape *shape)
{
    ph__text_format(words, "%s[", dtype ? ph_dtype_name(dtype) : "another dtype");
    for (size_t i = 0; i < shape->rank; i++)
        ph__text_format(words, "%s%lld", i ? ", " : "", (long long)shape->dim[i]);
    ph__text_add(words, "]");
}

bool ph__state_find(const ph_safetensors *file, const char *name, ph_dtype *dtype, ph_shape *shape)
{
    const char *found;
    for (size_t i = 0; i < ph_safetensors_count(file); i++)
        if (ph_safetensors_entry(&found, dtype, shape, file, i) == PH_OK &&
            strcmp(found, name) == 0)
            return true;
    return false;
}

static bool is_wanted(const ph__wanted *wanted, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(wanted[i].name, name) == 0)
            return true;
    return false;
}

static bool fits_wanted(const ph__wanted *w, ph_dtype dtype, const ph_shape *shape)
{
    bool none = w->may_be_empty && shape->rank == 1 && shape->dim[0] == 0;
    return dtype == w->dtype && (none || ph_shape_equal(shape, &w->shape));
}

static void compare_wanted(ph__text *words, const ph__wanted *wanted, size_t count,
                           const ph_safetensors *file, bool strict)
{
    ph_dtype dtype;
    ph_shape shape;
    const char *name;
    for (size_t i = 0; i < count; i++) {
        const ph__wanted *w = &wanted[i];
        if (!ph__state_find(file, w->name, &dtype, &shape)) {
            if (strict)
                add_mismatch(words, "%s is missing", w->name);
        } else if (!fits_wanted(w, dtype, &shape)) {
            add_mismatch(words, "%s is ", w->name);
            add_shape(words, dtype, &shape);
            ph__text_add(words, " and must be ");
            add_shape(words, w->dtype, &w->shape);
        }
    }
    for (size_t i = 0; strict && i < ph_safetensors_count(file); i++)
        if (ph_safetensors_entry(&name, &dtype, &shape, file, i) == PH_OK &&
            !is_wanted(wanted, count, name))
            add_mismatch(words, "%s is unexpected", name);
}

ph_status ph__state_check(const ph__wanted *wanted, size_t count, const ph_safetensors *file,
                          const char *path, bool strict, const char *call)
{
    ph__text words = {.at = NULL};
    compare_wanted(&words, wanted, count, file, strict);
    bool differs = words.length > 0, failed = words.failed;
    char *text = ph__text_take(&words);
    ph_status status = PH_OK;
    if (failed || (differs && !text))
        status = ph__fail_host_memory(call, "the list of what does not match");
    else if (differs)
        status = ph_fail(PH_ERROR_MISMATCH, "%s: %s does not fit, and nothing was loaded: %s", call,
                         path, text);
    ph__free(text);
    return status;
}

ph_status ph__state_begin(ph_tape **tape, ph_device *device, const char *call)
{
    PH_TRY(ph__layer_waited(ph_device_synchronize(device), call));
    return ph__layer_begin(tape, device, NULL);
}

static ph_status check_state(const state *s, const ph_safetensors *file, const char *path,
                             bool strict, const char *call)
{
    size_t count = s->tensors.count;
    ph__wanted *wanted = ph__calloc(count, sizeof *wanted);
    if (!wanted && count > 0)
        return ph__fail_host_memory(call, "the names of a module's tensors");
    for (size_t i = 0; i < count; i++) {
        const ph_named_tensor *own = &s->tensors.at[i];
        wanted[i] = (ph__wanted){own->name, ph_tensor_dtype(own->tensor),
                                 ph_tensor_shape(own->tensor), false};
    }
    ph_status status = ph__state_check(wanted, count, file, path, strict, call);
    ph__free(wanted);
    return status;
}

/* Everything that a tensor could refuse once others have their new values. */
static ph_status check_state_tensors(const state *s, const ph_safetensors *file, const char *call)
{
    ph_dtype dtype;
    ph_shape shape;
    for (size_t i = 0; i < s->tensors.count; i++) {
        const ph_named_tensor *own = &s->tensors.at[i];
        if (!ph__state_find(file, own->name, &dtype, &shape))
            continue;
        if (own->tensor->storage->read_only || !ph_tensor_is_leaf(own->tensor))
            return ph_fail(PH_ERROR_STATE, "%s: %s %s, and nothing was loaded", call, own->name,
                           own->tensor->storage->read_only
                               ? "has read-only memory"
                               : "was made by an operator, and is no leaf");
    }
    return PH_OK;
}

static ph_status load_state(ph_tape *tape, const state *s, ph_safetensors *file, const char *call)
{
    ph_dtype dtype;
    ph_shape shape;
    PH_TRY(check_state_tensors(s, file, call));
    PH_TRY(ph__safetensors_look_up(file, tape, call));
    for (size_t i = 0; i < s->tensors.count; i++)
        if (ph__state_find(file, s->tensors.at[i].name, &dtype, &shape))
            PH_TRY(ph_safetensors_read_into(tape, s->tensors.at[i].tensor, file,
                                            s->tensors.at[i].name));
    return PH_OK;
}

ph_status ph_module_load(ph_module *module, const char *path, bool strict)
{
    static const char call[] = "ph_module_load";
    state s;
    ph_safetensors *file = NULL;
    ph_tape *tape;
    PH_TRY(state_of(&s, module, path, call));
    ph_status status = ph_safetensors_open(&file, path);
    if (status == PH_OK)
        status = check_state(&s, file, path, strict, call);
    if (status == PH_OK)
        status = ph__state_begin(&tape, module->device, call);
    if (status == PH_OK)
        status = ph__layer_finish(tape, load_state(tape, &s, file, call), call);
    ph_safetensors_close(file);
    state_free(&s);
    return status;
}
