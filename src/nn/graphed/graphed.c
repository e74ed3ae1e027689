/* SPDX-License-Identifier: MIT */
/* nn/graphed/graphed.c: making graphed callables: what is refused, what they consist of, and how
 * they go. */
#include "nn/graphed/graphed.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/line.h"
#include "base/option.h"
#include "base/status.h"
#include "base/unwind.h"
#include "tensor/autograd/autocast.h"
#include "tensor/random/generator.h"
#include <string.h>

static const char call[] = "ph_make_graphed_callables";

/* ---- what is refused ---- */
typedef struct search {
    const char *module;
    size_t index;
    ph_status status;
} search;

static bool check_buffer(const char *name, ph_tensor *x, void *user)
{
    search *s = user;
    if (ph_tensor_requires_grad(x))
        s->status = ph_fail(PH_ERROR_ARGUMENT,
                            "%s: callable %zu (%s): buffer '%s' requires a gradient; a buffer must "
                            "not, make it a parameter",
                            call, s->index, s->module, name);
    return s->status == PH_OK;
}

static bool check_parameter(const char *name, ph_tensor *x, void *user)
{
    search *s = user;
    if (x->leaf && x->leaf->hooks)
        s->status = ph_fail(PH_ERROR_ARGUMENT,
                            "%s: callable %zu (%s): parameter '%s' has a hook, which would be "
                            "captured; add it afterwards",
                            call, s->index, s->module, name);
    return s->status == PH_OK;
}

static ph_status check_homes(const ph_module *module, size_t i)
{
    char where[128];
    ph__line_format(where, sizeof where, "%s: callable %zu (%s)", call, i, module->name);
    return ph__module_check_homes(module, where);
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
    PH_TRY(check_homes(module, i));
    search s = {.module = module->name, .index = i, .status = PH_OK};
    ph_module_buffers(module, check_buffer, &s);
    if (s.status == PH_OK)
        ph_module_parameters(module, check_parameter, &s);
    return s.status;
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

static ph_status check(ph_module **out, ph_module *const *modules, const ph_sample *samples,
                       size_t count, const ph_graphed_options *options)
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

/* ---- sets ---- */
void ph__graphed_set_release(ph__graphed_set *set)
{
    if (!set || !ph__drop_reference(&set->references))
        return;
    ph_tape_destroy(set->tape);
    ph__shared_pool_release(set->shared);
    ph_pool_release(set->pool);
    ph_device_release(set->device);
    ph__free(set);
}

static ph_status make_set(ph__graphed_set **out, ph_device *device,
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

/* ---- callables ---- */
ph__callable *ph__callable_retain(ph__callable *callable)
{
    atomic_fetch_add_explicit(&callable->references, 1, memory_order_relaxed);
    return callable;
}

static void drop_port(ph__port *port)
{
    ph_tensor_release(port->buffer);
    port->buffer = NULL;
}

void ph__callable_reset(ph__callable *callable)
{
    ph__callable_drop_others(callable);
    ph__program_leave(&callable->forward, callable->set->shared);
    ph__program_leave(&callable->backward, callable->set->shared);
    ph_graph_destroy(callable->forward.graph);
    ph_graph_destroy(callable->backward.graph);
    callable->forward.graph = callable->backward.graph = NULL;
    ph__values_release(callable->out_values);
    ph__values_release(callable->saved_values);
    ph__values_release(callable->grad_values);
    callable->out_values = callable->saved_values = callable->grad_values = NULL;
    for (size_t i = 0; i < callable->exit_count; i++)
        ph_tensor_release(callable->exits[i].grad);
    callable->exit_count = callable->op_slot_count = callable->saved_count = 0;
    for (size_t i = 0; callable->outputs && i < callable->out_count; i++) {
        ph_tensor_release(callable->outputs[i]);
        callable->outputs[i] = NULL;
    }
    for (size_t i = 0; callable->inputs && i < callable->in_count; i++)
        drop_port(&callable->inputs[i]);
    for (size_t i = 0; callable->incoming && i < callable->out_count; i++)
        drop_port(&callable->incoming[i]);
    ph__storages_free(&callable->changed);
    ph__storages_free(&callable->exposed);
    ph__callable_drop_stand_ins(callable);
    ph__storages_free(&callable->held);
    ph_free(callable->outgoing, callable->set->stream);
    callable->outgoing = NULL;
    ph__ranges_free(&callable->forward.touched);
    ph__ranges_free(&callable->backward.touched);
    callable->differentiable = false;
}

void ph__callable_release(ph__callable *callable)
{
    if (!callable || !ph__drop_reference(&callable->references))
        return;
    ph__callable_reset(callable);
    for (size_t i = 0; callable->operands && i < callable->parameter_count; i++)
        ph_tensor_release(ph__callable_parameters(callable)[i]);
    for (size_t i = 0; callable->parameter_names && i < callable->parameter_count; i++)
        ph__free(callable->parameter_names[i]);
    ph__structure_free(callable->structure);
    ph__structure_free(callable->out_structure);
    ph__free(callable->inputs);
    ph__free(callable->incoming);
    ph__free(callable->outputs);
    ph__free(callable->operands);
    ph__free(callable->parameter_names);
    ph__free(callable->parameter_data);
    ph__free(callable->parameter_grads);
    ph__homes_drop(&callable->homes);
    ph__free(callable->modes);
    ph__free(callable->parameter_saved);
    ph__free(callable->exits);
    ph__free(callable->exit_order);
    ph__free(callable->ops);
    ph__free(callable->op_slots);
    ph__free(callable->values);
    ph_pool_release(callable->aside);
    ph__free(callable->depends);
    ph_module_release(callable->original);
    ph__graphed_set_release(callable->set);
    ph__free(callable);
}

static bool count_module(const char *name, ph_module *module, void *user)
{
    (void)name;
    (void)module;
    ++*(size_t *)user;
    return true;
}

static bool collect_mode(const char *name, ph_module *module, void *user)
{
    ph__callable *callable = user;
    (void)name;
    callable->modes[callable->mode_count++] = (struct ph__mode){module, module->training};
    return true;
}

typedef struct collecting {
    ph__callable *callable;
    size_t count;
    bool failed;
} collecting;

static bool collect_parameter(const char *name, ph_tensor *x, void *user)
{
    collecting *c = user;
    size_t i = c->count++;
    if (!(c->callable->parameter_names[i] = ph__strdup(name))) {
        c->failed = true;
        return false;
    }
    ph__callable_parameters(c->callable)[i] = ph_tensor_retain(x);
    c->callable->parameter_data[i] = ph_tensor_data(x);
    c->callable->parameter_grads[i] = ph_tensor_requires_grad(x);
    return true;
}

static bool allocate(ph__callable *callable)
{
    size_t in = callable->in_count, out = callable->out_count,
           parameters = callable->parameter_count;
    size_t bundles = (in + parameters) / PH__BUNDLE_MAX + 1, modules = 0;
    callable->inputs = ph__calloc(in + 1, sizeof *callable->inputs);
    callable->incoming = ph__calloc(out, sizeof *callable->incoming);
    callable->outputs = ph__calloc(out, sizeof *callable->outputs);
    callable->operands = ph__calloc(in + parameters + 1, sizeof *callable->operands);
    callable->parameter_names = ph__calloc(parameters + 1, sizeof *callable->parameter_names);
    callable->parameter_data = ph__calloc(parameters + 1, sizeof *callable->parameter_data);
    callable->parameter_grads = ph__calloc(parameters + 1, sizeof *callable->parameter_grads);
    callable->parameter_saved = ph__calloc(parameters + 1, sizeof *callable->parameter_saved);
    callable->exits = ph__calloc(in + parameters + 1, sizeof *callable->exits);
    callable->exit_order = ph__calloc(in + parameters + 1, sizeof *callable->exit_order);
    ph_module_modules(callable->original, count_module, &modules);
    callable->modes = ph__calloc(modules, sizeof *callable->modes);
    callable->ops = ph__calloc(bundles, PH__BUNDLE_MAX);
    callable->op_slots = ph__calloc(bundles, sizeof *callable->op_slots);
    callable->values = ph__calloc(2 * in + out + parameters + bundles, sizeof *callable->values);
    callable->depends = ph__calloc(out, in + 1);
    return callable->inputs && callable->incoming && callable->outputs && callable->operands &&
           callable->parameter_names && callable->parameter_data && callable->parameter_grads &&
           callable->parameter_saved && callable->modes && callable->exits &&
           callable->exit_order && callable->ops && callable->op_slots && callable->values &&
           callable->depends;
}

static void describe_inputs(ph__callable *callable, const ph_sample *sample)
{
    callable->copies_all = callable->set->options.inputs == PH_GRAPHED_COPY_INPUTS;
    for (size_t i = 0; i < callable->in_count; i++) {
        const ph_tensor *x = sample->tensors[i];
        ph__port *port = &callable->inputs[i];
        port->dtype = x->dtype;
        port->shape = x->shape;
        port->bytes = ph_tensor_bytes(x);
        port->requires_grad = ph__needs_grad(x);
        port->used = true;
        if (callable->copies_all) {
            port->force_copy = true;
            ph__line_format(port->reason, sizeof port->reason, "copying was asked for");
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
    callable->parameter_count = ph_module_parameter_count(module);
    ph__line_format(callable->forward.name, sizeof callable->forward.name, "%s", module->name);
    ph__line_format(callable->backward.name, sizeof callable->backward.name, "%s", module->name);
    callable->backward.backward = true;
    callable->structure = ph__structure_copy(sample->structure);
    callable->out_structure = ph__structure_copy(sample->out_structure);
    if (!allocate(callable) || (sample->structure && !callable->structure) ||
        (sample->out_structure && !callable->out_structure))
        return ph__fail_host_memory(call, "a callable");
    collecting c = {.callable = callable};
    ph_module_parameters(module, collect_parameter, &c);
    ph_module_modules(module, collect_mode, callable);
    if (c.failed)
        return ph__fail_host_memory(call, "the names of parameters");
    describe_inputs(callable, sample);
    return PH_OK;
}

/* ---- all of it ---- */
static void release_self(void *self)
{
    ph__callable_release(self);
}

static ph_status wait_for_device(ph_device *device)
{
    ph_status status = ph_device_synchronize(device);
    if (status != PH_OK)
        ph__error_prefix("%s", call);
    return status;
}

/* What forward itself puts in place of a tensor is read by no replay. */
static ph_status check_captured_homes(ph__callable *callable, size_t i)
{
    char changed[160] = "";
    ph__homes_accept_added(&callable->homes);
    if (!ph__homes_have_changed(&callable->homes))
        return PH_OK;
    ph__homes_tell(changed, sizeof changed, &callable->homes, callable->original);
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
        if (!ph__homes_collect(&callables[i]->homes, modules[i]))
            return ph__fail_host_memory(call, "where modules keep their tensors");
    }
    PH_TRY(wait_for_device(set->device));
    for (size_t i = 0; i < count; i++) {
        PH_TRY(ph__callable_warm_up(callables[i], &samples[i], call));
        /* forward may make a buffer when it first needs it */
        ph__homes_accept_added(&callables[i]->homes);
    }
    PH_TRY(wait_for_device(set->device));
    PH_TRY(ph__callables_capture(callables, count, call));
    for (size_t i = 0; i < count; i++)
        PH_TRY(check_captured_homes(callables[i], i));
    return PH_OK;
}

/* Modules take the callables over. */
static ph_status wrap(ph_module **out, ph__callable *const *callables, size_t count)
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

static void let_go(const making *m)
{
    for (size_t i = 0; i < m->count; i++)
        ph__callable_release(m->callables[i]);
    ph__free(m->callables);
    ph__graphed_set_release(m->set);
}

/* A function of the user's did not return. */
static void abandon(void *what)
{
    ph_error saved;
    ph__error_save(&saved);
    let_go(what);
    ph__error_restore(&saved);
}

ph_status ph_make_graphed_callables(ph_module **out, ph_module *const *modules,
                                    const ph_sample *samples, size_t count,
                                    const ph_graphed_options *options)
{
    static const ph_graphed_options defaults;
    options = options ? options : &defaults;
    for (size_t i = 0; out && i < count; i++)
        out[i] = NULL;
    PH_TRY(check(out, modules, samples, count, options));
    making m = {.callables = ph__calloc(count, sizeof(ph__callable *)), .count = count};
    if (!m.callables)
        return ph__fail_host_memory(call, "the callables");
    PH__UNWIND unwind = {abandon, &m};
    ph_status status = make_set(&m.set, modules[0]->device, options);
    if (status == PH_OK)
        status = make_all(m.callables, m.set, modules, samples, count);
    unwind.undo = NULL;
    if (status == PH_OK)
        status = wrap(out, m.callables, count);
    ph_error failure;
    ph__error_save(&failure);
    for (size_t i = 0; i < count && status != PH_OK; i++) {
        ph_module_release(out[i]);
        out[i] = NULL;
    }
    let_go(&m);
    if (status != PH_OK)
        ph__error_restore(&failure);
    return status;
}
