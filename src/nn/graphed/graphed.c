/* SPDX-License-Identifier: MIT */
/* nn/graphed/graphed.c: making graphed callables: what is refused, what they consist of, and how
 * they go. */
#include "base/alloc.h"
#include "base/line.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/graphed/arguments.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/call.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/making.h"
#include "nn/graphed/output_sets.h"
#include "nn/graphed/structure.h"
#include "nn/graphed/warmup.h"
#include "nn/module/parameter_slots.h"
#include "nn/module/traverse.h"
#include "tensor/kernels/bundle.h"
#include "tensor/tape/node.h"
#include <string.h>

static const char call[] = "ph_make_graphed_callables";

static ph_status make_graphed_set(ph__graphed_set **out, ph_device *device,
                                  const ph_graphed_options *options)
{
    ph__graphed_set *set = ph__calloc(1, sizeof *set);
    *out = set;
    if (!set)
        return ph__fail_host_memory(call, "the callables");
    atomic_init(&set->references, 1);
    set->device = ph_device_retain(device);
    set->options = *options;
    set->stream = options->stream;
    if (options->pool && !(set->pool = ph_pool_retain(options->pool)))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: ph_graphed_options.pool is no pool, or one that went with its last "
                       "holder; take a reference with "
                       "ph_pool_retain before that",
                       call);
    if (!set->pool)
        PH_TRY(ph_pool_create(&set->pool, device, NULL));
    PH_TRY(ph__shared_pool_get(&set->shared, set->pool, call));
    return set->stream ? PH_OK : ph__shared_pool_stream(&set->stream, set->shared, device, call);
}

static bool count_part(const ph__entry *entry, void *user)
{
    ph__callable *callable = user;
    callable->parameter_count += entry->tensor && !entry->buffer;
    callable->mode_count += entry->tensor == NULL;
    return true;
}

static bool collect_part(const ph__entry *entry, void *user)
{
    ph__callable *callable = user;
    if (entry->buffer)
        return true;
    if (!entry->tensor) {
        callable->modes[callable->mode_count++] =
            (struct ph__mode){entry->module, entry->module->training};
        return true;
    }
    size_t i = callable->parameter_count++;
    ph__callable_parameters(callable)[i] = ph_tensor_retain(entry->tensor);
    callable->parameter_data[i] = ph_tensor_data(entry->tensor);
    callable->parameter_grads[i] = ph_tensor_requires_grad(entry->tensor);
    return true;
}

static bool allocate_callable(ph__callable *callable)
{
    size_t in = callable->in_count, out = callable->out_count,
           parameters = callable->parameter_count;
    size_t bundles = (in + parameters) / PH__BUNDLE_MAX + 1;
    callable->inputs = ph__calloc(in + 1, sizeof *callable->inputs);
    callable->grad_outputs = ph__calloc(out, sizeof *callable->grad_outputs);
    callable->outputs = ph__calloc(out, sizeof *callable->outputs);
    callable->outputs_ahead = ph__calloc(out, sizeof *callable->outputs_ahead);
    callable->operands = ph__calloc(in + parameters + 1, sizeof *callable->operands);
    callable->parameter_data = ph__calloc(parameters + 1, sizeof *callable->parameter_data);
    callable->parameter_grads = ph__calloc(parameters + 1, sizeof *callable->parameter_grads);
    callable->parameter_saved = ph__calloc(parameters + 1, sizeof *callable->parameter_saved);
    callable->saved_parameters = ph__calloc(parameters + 1, sizeof *callable->saved_parameters);
    callable->saved_storages = ph__calloc(parameters + 1, sizeof *callable->saved_storages);
    callable->grad_inputs = ph__calloc(in + parameters + 1, sizeof *callable->grad_inputs);
    callable->grad_input_order =
        ph__calloc(in + parameters + 1, sizeof *callable->grad_input_order);
    callable->modes = ph__calloc(callable->mode_count, sizeof *callable->modes);
    callable->ops = ph__calloc(bundles, PH__BUNDLE_MAX);
    callable->op_slots = ph__calloc(bundles, sizeof *callable->op_slots);
    callable->values = ph__calloc(2 * in + out + parameters + bundles, sizeof *callable->values);
    callable->depends = ph__calloc(out, in + 1);
    return callable->inputs && callable->grad_outputs && callable->outputs &&
           callable->outputs_ahead && callable->operands && callable->parameter_data &&
           callable->parameter_grads && callable->parameter_saved && callable->saved_parameters &&
           callable->saved_storages && callable->modes && callable->grad_inputs &&
           callable->grad_input_order && callable->ops && callable->op_slots && callable->values &&
           callable->depends;
}

static void describe_inputs(ph__callable *callable, const ph_sample *sample)
{
    callable->copies_all = callable->set->options.inputs == PH_GRAPHED_COPY_INPUTS;
    for (size_t i = 0; i < callable->in_count; i++) {
        const ph_tensor *x = sample->tensors[i];
        ph__binding *binding = &callable->inputs[i];
        binding->dtype = x->dtype;
        binding->shape = x->shape;
        binding->bytes = ph_tensor_bytes(x);
        binding->requires_grad = ph__needs_grad(x);
        binding->used = true;
        if (callable->copies_all) {
            binding->force_copy = true;
            ph__line_format(binding->reason, sizeof binding->reason, "copying was asked for");
        }
    }
}

static ph_status make_callable(ph__callable **out, ph__graphed_set *set, ph_module *module,
                               const ph_sample *sample)
{
    ph__callable *callable = ph__calloc(1, sizeof *callable);
    *out = callable;
    if (!callable)
        return ph__fail_host_memory(call, "a callable");
    atomic_init(&callable->references, 1);
    atomic_fetch_add_explicit(&set->references, 1, memory_order_relaxed);
    callable->set = set;
    callable->original = ph_module_retain(module);
    callable->in_count = module->in_count;
    callable->out_count = module->out_count;
    if (!ph__module_walk(module, count_part, callable))
        return ph__fail_host_memory(call, "a callable");
    ph__line_format(callable->forward.name, sizeof callable->forward.name, "%s", module->name);
    ph__line_format(callable->backward.name, sizeof callable->backward.name, "%s", module->name);
    callable->backward.backward = true;
    callable->structure = ph__structure_copy(sample->structure);
    callable->out_structure = ph__structure_copy(sample->out_structure);
    if (!allocate_callable(callable) || (sample->structure && !callable->structure) ||
        (sample->out_structure && !callable->out_structure))
        return ph__fail_host_memory(call, "a callable");
    callable->parameter_count = callable->mode_count = 0;
    if (!ph__module_walk(module, collect_part, callable))
        return ph__fail_host_memory(call, "the parameters of a callable");
    describe_inputs(callable, sample);
    return PH_OK;
}

/* ---- all of it ---- */
static void release_self(void *self)
{
    ph__callable_end(self);
}

static ph_status wait_for_device(ph_device *device)
{
    ph_status status = ph_device_synchronize(device);
    if (status != PH_OK)
        ph__error_prefix("%s", call);
    return status;
}

/* A tensor that forward itself replaces is read by no replay. */
static ph_status check_captured_parameter_slots(ph__callable *callable, size_t i)
{
    char changed[160] = "";
    ph__parameter_slots_accept_added(&callable->parameter_slots);
    if (!ph__parameter_slots_have_changed(&callable->parameter_slots))
        return PH_OK;
    ph__parameter_slots_report(changed, sizeof changed, &callable->parameter_slots,
                               callable->original);
    return ph_fail(PH_ERROR_STATE,
                   "%s: callable %zu (%s): %s by its own forward, in warm-up or capture, and no "
                   "replay would see "
                   "that; let forward change it in place (ph_tensor_copy)",
                   call, i, callable->original->name, changed);
}

static ph_status make_all(ph__callable **callables, ph__graphed_set *set, ph_module *const *modules,
                          const ph_sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        PH_TRY(make_callable(&callables[i], set, modules[i], &samples[i]));
        if (!ph__parameter_slots_collect(&callables[i]->parameter_slots, modules[i]))
            return ph__fail_host_memory(call, "where modules keep their tensors");
    }
    PH_TRY(wait_for_device(set->device));
    for (size_t i = 0; i < count; i++) {
        PH_TRY(ph__callable_warm_up(callables[i], &samples[i], call));
        /* forward may make a buffer when it first needs it */
        ph__parameter_slots_accept_added(&callables[i]->parameter_slots);
    }
    PH_TRY(wait_for_device(set->device));
    PH_TRY(ph__callables_capture(callables, count, call));
    for (size_t i = 0; i < count; i++)
        PH_TRY(check_captured_parameter_slots(callables[i], i));
    return PH_OK;
}

/* Modules take the callables over. */
static ph_status wrap_in_modules(ph_module **out, ph__callable *const *callables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        PH_TRY(ph__module_like(&out[i], callables[i]->original, ph__graphed_forward, callables[i],
                               release_self, call));
        ph__callable_retain(callables[i]);
    }
    return PH_OK;
}

typedef struct making {
    ph__callable **callables;
    size_t count;
    ph__graphed_set *set;
} making;

static void let_go_of_making(const making *m)
{
    for (size_t i = 0; i < m->count; i++)
        ph__callable_release(m->callables[i]);
    ph__free(m->callables);
    ph__graphed_set_release(m->set);
}

/* A function of the user's did not return. */
static void abandon_making(void *what)
{
    ph_error saved;
    ph__error_save(&saved);
    let_go_of_making(what);
    ph__error_restore(&saved);
}

ph_status ph_make_graphed_callables(ph_module **out, ph_module *const *modules,
                                    const ph_sample *samples, size_t count,
                                    const ph_graphed_options *options)
{
    static const ph_graphed_options defaults;
    options = options ? options : &defaults;
    PH_TRY(ph__module_check_apart(out, count, modules, count, "modules", call));
    for (size_t i = 0; out && i < count; i++)
        out[i] = NULL;
    PH_TRY(ph__graphed_check_arguments(out, modules, samples, count, options));
    making m = {.callables = ph__calloc(count, sizeof(ph__callable *)), .count = count};
    if (!m.callables)
        return ph__fail_host_memory(call, "the callables");
    PH__UNWIND unwind = {abandon_making, &m};
    ph_status status = make_graphed_set(&m.set, modules[0]->device, options);
    if (status == PH_OK)
        status = make_all(m.callables, m.set, modules, samples, count);
    unwind.undo = NULL;
    if (status == PH_OK)
        status = wrap_in_modules(out, m.callables, count);
    ph_error failure;
    ph__error_save(&failure);
    for (size_t i = 0; i < count && status != PH_OK; i++) {
        ph_module_release(out[i]);
        out[i] = NULL;
    }
    let_go_of_making(&m);
    if (status != PH_OK)
        ph__error_restore(&failure);
    return status;
}
