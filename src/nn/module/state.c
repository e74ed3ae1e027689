/* SPDX-License-Identifier: MIT */
/* nn/module/state.c: a module's parameters and buffers to and from safetensors. */
#include "nn/module/state.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/module/layers.h"
#include "nn/module/module.h"
#include "nn/module/parameter_slots.h"
#include "nn/module/traverse.h"
#include "tensor/core/tensor.h"
#include "tensor/files/safetensors.h"
#include "tensor/tape/tape.h"
#include <phonograph/log.h>
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
    const char *name = ph__entry_name(entry);
    ph_named_tensor named = {name ? ph__strdup(name) : NULL, entry->tensor};
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
    char *text = ph__text_detach(&words);
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

/* ---- a load in two halves ---- */
struct ph__module_load {
    state state;
    ph_safetensors *file;
    ph_tape *tape; /* NULL: not begun, or over */
    const char *path, *call;
};

/* How many of the module's names the file has. */
static size_t count_matching(const ph__module_load *l)
{
    ph_dtype dtype;
    ph_shape shape;
    size_t count = 0;
    for (size_t i = 0; i < l->state.tensors.count; i++)
        count += ph__state_find(l->file, l->state.tensors.at[i].name, &dtype, &shape);
    return count;
}

/* Where no name matches, nothing would be loaded: then the list that strict has is the answer. */
static ph_status check_file_names(const ph__module_load *l, bool strict)
{
    bool some = l->state.tensors.count > 0 || ph_safetensors_count(l->file) > 0;
    bool none = !strict && some && count_matching(l) == 0;
    return check_state(&l->state, l->file, l->path, strict || none, l->call);
}

static ph_status inspect_file(ph__module_load *l, ph_module *module, bool strict)
{
    PH_TRY(ph_safetensors_open(&l->file, l->path));
    PH_TRY(check_file_names(l, strict));
    PH_TRY(ph__state_begin(&l->tape, module->device, l->call));
    PH_TRY(check_state_tensors(&l->state, l->file, l->call));
    return ph__safetensors_look_up(l->file, l->tape, l->call);
}

ph_status ph__module_load_begin(ph__module_load **out, ph_module *module, const char *path,
                                bool strict, const char *call)
{
    ph__module_load *l = ph__calloc(1, sizeof *l);
    *out = NULL;
    if (!l)
        return ph__fail_host_memory(call, "the load of a module");
    l->path = path;
    l->call = call;
    ph_status status = state_of(&l->state, module, path, call);
    if (status == PH_OK)
        status = inspect_file(l, module, strict);
    if (status == PH_OK)
        *out = l;
    else
        ph__module_load_end(l);
    return status;
}

static ph_status read_tensors(const ph__module_load *l)
{
    ph_dtype dtype;
    ph_shape shape;
    for (size_t i = 0; i < l->state.tensors.count; i++) {
        const ph_named_tensor *own = &l->state.tensors.at[i];
        if (ph__state_find(l->file, own->name, &dtype, &shape))
            PH_TRY(ph_safetensors_read_into(l->tape, own->tensor, l->file, own->name));
    }
    return PH_OK;
}

ph_status ph__module_load_apply(ph__module_load *l)
{
    ph_tape *tape = l->tape;
    ph_status status = read_tensors(l);
    l->tape = NULL;
    return ph__layer_finish(tape, status, l->call);
}

void ph__module_load_end(ph__module_load *l)
{
    if (!l)
        return;
    ph_tape_destroy(l->tape);
    ph_safetensors_close(l->file);
    state_free(&l->state);
    ph__free(l);
}

/* ---- the calls ---- */
static bool is_own(const ph__module_load *l, const char *name)
{
    for (size_t i = 0; i < l->state.tensors.count; i++)
        if (strcmp(l->state.tensors.at[i].name, name) == 0)
            return true;
    return false;
}

static void visit_names(const ph__module_load *l, ph_module_loaded_fn visit, void *user)
{
    ph_dtype dtype;
    ph_shape shape;
    const char *name;
    for (size_t i = 0; i < l->state.tensors.count; i++) {
        name = l->state.tensors.at[i].name;
        visit(name,
              ph__state_find(l->file, name, &dtype, &shape) ? PH_MODULE_LOADED : PH_MODULE_MISSING,
              user);
    }
    for (size_t i = 0; i < ph_safetensors_count(l->file); i++)
        if (ph_safetensors_entry(&name, &dtype, &shape, l->file, i) == PH_OK && !is_own(l, name))
            visit(name, PH_MODULE_UNEXPECTED, user);
}

static void add_left_alone(const char *name, ph_module_loaded what, void *words)
{
    if (what != PH_MODULE_LOADED)
        add_mismatch(words, what == PH_MODULE_MISSING ? "%s is missing" : "%s is unexpected", name);
}

static void warn_of_names(const ph__module_load *l)
{
    ph__text names = {.at = NULL}, line = {.at = NULL};
    visit_names(l, add_left_alone, &names);
    bool complete = names.length == 0 && !names.failed;
    char *list = ph__text_detach(&names);
    ph__text_format(&line, "%s: %s: %zu of %zu tensors were loaded: %s", l->call, l->path,
                    count_matching(l), l->state.tensors.count, list ? list : "");
    char *text = ph__text_detach(&line);
    if (!complete)
        ph_log_write(PH_LOG_WARNING,
                     list && text ? text
                                  : "ph_module_load: not all tensors were loaded; there is no host "
                                    "memory for their names");
    ph__free(list);
    ph__free(text);
}

ph_status ph_module_load(ph_module *module, const char *path, bool strict)
{
    ph__module_load *l;
    PH_TRY(ph__module_load_begin(&l, module, path, strict, "ph_module_load"));
    ph_status status = ph__module_load_apply(l);
    if (status == PH_OK && !strict)
        warn_of_names(l);
    ph__module_load_end(l);
    return status;
}

static void abandon_module_load(void *load)
{
    ph__module_load_end(load);
}

ph_status ph_module_load_matching(ph_module *module, const char *path, ph_module_loaded_fn visit,
                                  void *user)
{
    static const char call[] = "ph_module_load_matching";
    ph__module_load *l;
    if (!visit)
        return ph__fail_null(call, "visit");
    PH_TRY(ph__module_load_begin(&l, module, path, false, call));
    PH__UNWIND unwind = {abandon_module_load, l};
    ph_status status = ph__module_load_apply(l);
    if (status == PH_OK)
        visit_names(l, visit, user);
    unwind.undo = NULL;
    ph__module_load_end(l);
    return status;
}
