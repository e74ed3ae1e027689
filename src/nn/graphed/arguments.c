/* SPDX-License-Identifier: MIT */
/* nn/graphed/arguments.c: what ph_make_graphed_callables refuses. */
#include "nn/graphed/arguments.h"
#include "base/line.h"
#include "base/option.h"
#include "base/status.h"
#include "nn/graphed/call.h"
#include "nn/module/parameter_slots.h"
#include "nn/module/traverse.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/generator.h"
#include "tensor/tape/autocast.h"
#include "tensor/tape/leaf.h"

static const char call[] = "ph_make_graphed_callables";

typedef struct search {
    const char *module;
    size_t index;
    ph_status status;
} search;

static bool fail_entry(search *s, const ph__entry *entry, const char *kind, const char *why)
{
    const char *name = ph__entry_name(entry);
    s->status = name ? ph_fail(PH_ERROR_ARGUMENT, "%s: callable %zu (%s): %s '%s' %s", call,
                               s->index, s->module, kind, name, why)
                     : ph__fail_host_memory(call, "the names of a module's tensors");
    return false;
}

static bool check_buffer(const ph__entry *entry, void *user)
{
    return !entry->buffer || !ph_tensor_requires_grad(entry->tensor) ||
           fail_entry(user, entry, "buffer",
                      "requires a gradient; a buffer must not, make it a parameter");
}

static bool has_parameter_hook(const ph__entry *entry)
{
    const ph_tensor *x = entry->buffer ? NULL : entry->tensor;
    return x && x->leaf && x->leaf->hooks;
}

static bool check_parameter(const ph__entry *entry, void *user)
{
    return !has_parameter_hook(entry) ||
           fail_entry(user, entry, "parameter",
                      "has a hook, which would be captured; add it afterwards");
}

static bool check_tensor(const ph__entry *entry, void *user)
{
    (void)user;
    return !(entry->buffer && ph_tensor_requires_grad(entry->tensor)) && !has_parameter_hook(entry);
}

/* Of two things that are wrong a buffer's is told. */
static ph_status check_tensors(const ph_module *module, size_t i)
{
    search s = {.module = module->name, .index = i, .status = PH_OK};
    if (ph__module_walk(module, check_tensor, NULL) ||
        (ph__module_walk(module, check_buffer, &s) && ph__module_walk(module, check_parameter, &s)))
        return PH_OK;
    return s.status != PH_OK ? s.status
                             : ph__fail_host_memory(call, "a walk through a callable's module");
}

static ph_status check_parameter_slots(const ph_module *module, size_t i)
{
    char where[128];
    ph__line_format(where, sizeof where, "%s: callable %zu (%s)", call, i, module->name);
    return ph__module_check_parameter_slots(module, where);
}

static ph_status check_module(ph_module *const *modules, size_t i)
{
    ph_module *module = modules[i];
    if (!module)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: callable %zu (modules[%zu]) is NULL", call, i, i);
    for (size_t k = 0; k < i; k++)
        if (modules[k] == module)
            return ph_fail(
                PH_ERROR_ARGUMENT,
                "%s: callable %zu (%s) is callable %zu once more; each call of it would overwrite "
                "the other's",
                call, i, module->name, k);
    if (module->device != modules[0]->device)
        return ph_fail(PH_ERROR_WRONG_DEVICE,
                       "%s: callable %zu (%s) is of another device than callable 0", call, i,
                       module->name);
    if (ph__module_is_graphed(module))
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: callable %zu (%s) is graphed already; pass the module that it was made from", call,
            i, module->name);
    if (ph_module_has_hooks(module))
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: callable %zu (%s) has hooks, of its own or below, which would be captured; "
            "remove them, and add them to "
            "the graphed module",
            call, i, module->name);
    PH_TRY(check_parameter_slots(module, i));
    return check_tensors(module, i);
}

static ph_status check_sample(const ph_module *module, const ph_sample *sample, size_t i)
{
    if (sample->count != module->in_count)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: callable %zu (%s) takes %zu inputs, and its sample has %zu", call, i,
                       module->name, module->in_count, sample->count);
    if (sample->count && !sample->tensors)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: the sample of callable %zu (%s) has no array of tensors", call, i,
                       module->name);
    if (sample->structure && ph_structure_count(sample->structure) != sample->count)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: the structure of the sample of callable %zu (%s) is malformed, or has not as "
            "many tensors as the sample: %zu",
            call, i, module->name, sample->count);
    if (sample->out_structure && ph_structure_count(sample->out_structure) != module->out_count)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: the structure of the outputs of callable %zu (%s) is malformed, or has not as "
            "many tensors as the module has outputs: %zu",
            call, i, module->name, module->out_count);
    for (size_t k = 0; k < sample->count; k++) {
        char path[96];
        const ph_tensor *x = sample->tensors[k];
        PH_TRY(ph__tensor_check_there(x, call, "an input of a sample"));
        if (x && ph_tensor_device(x) == module->device)
            continue;
        (void)ph_structure_path(path, sizeof path, sample->structure, k);
        if (!x)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: callable %zu (%s): input %s of the sample is no tensor (NULL)",
                           call, i, module->name, path);
        return ph_fail(
            PH_ERROR_WRONG_DEVICE,
            "%s: callable %zu (%s): input %s of the sample is on another device than the module",
            call, i, module->name, path);
    }
    return PH_OK;
}

static ph_status check_options(const ph_graphed_options *options, const ph_device *device)
{
    if (!PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_graphed_options");
    PH_TRY(ph__option_named((unsigned)options->gradients, "gradients", call));
    PH_TRY(ph__option_named((unsigned)options->inputs, "inputs", call));
    PH_TRY(ph__option_named((unsigned)options->mode, "mode", call));
    if ((unsigned)options->gradients > PH_GRAPHED_BORROW)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %d is no ph_graphed_gradients", call,
                       (int)options->gradients);
    if ((unsigned)options->inputs > PH_GRAPHED_REBIND)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %d is no ph_graphed_inputs", call,
                       (int)options->inputs);
    if ((unsigned)options->mode > PH_CAPTURE_RELAXED)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %d is no capture mode", call, (int)options->mode);
    PH_TRY(ph__option_no_zero(options->max_backwards, "max_backwards", call));
    PH_TRY(ph__option_no_zero(options->defer_upload, "defer_upload", call));
    PH_TRY(ph__option_no_zero(options->check_foreign_every, "check_foreign_every", call));
    if (options->check_foreign_every && !options->check_input_liveness)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: check_foreign_every is how often check_input_liveness asks the driver; "
                       "set that, too",
                       call);
    PH_TRY(ph__autocast_check(&options->autocast, call));
    if (options->autocast.dtype != 0 && !options->autocast.no_cache)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: autocast with its cache of weights: each of the graphs casts the weights that it "
            "reads, and no cast is kept from one to another; set autocast.no_cache",
            call);
    if (options->generator && options->generator->backend->device != device)
        return ph_fail(PH_ERROR_WRONG_DEVICE,
                       "%s: the generator is of another device than the modules", call);
    if (options->stream && ph_stream_device(options->stream) != device)
        return ph_fail(PH_ERROR_WRONG_DEVICE,
                       "%s: the stream is of another device than the modules", call);
    if (options->stream == ph_device_default_stream((ph_device *)(uintptr_t)device))
        return ph_fail(PH_ERROR_DEFAULT_STREAM,
                       "%s: captures must run on a stream other than the default stream", call);
    return PH_OK;
}

ph_status ph__graphed_check_arguments(ph_module **out, ph_module *const *modules,
                                      const ph_sample *samples, size_t count,
                                      const ph_graphed_options *options)
{
    if (!out || !modules || !samples)
        return ph__fail_null(call, !out ? "out" : !modules ? "modules" : "samples");
    if (count == 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: there is no callable", call);
    for (size_t i = 0; i < count; i++) {
        PH_TRY(check_module(modules, i));
        PH_TRY(check_sample(modules[i], &samples[i], i));
    }
    return check_options(options, modules[0]->device);
}
