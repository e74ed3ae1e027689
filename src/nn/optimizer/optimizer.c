/* SPDX-License-Identifier: MIT */
/* nn/optimizer/optimizer.c: optimizers: what they are made from, their state, and how often they
 * have stepped. */
#include "nn/optimizer/optimizer.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/module/layers.h"
#include "nn/module/parameter_slots.h"
#include "nn/module/traverse.h"
#include "nn/optimizer/groups.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/leaf.h"
#include "tensor/tape/tape.h"
#include <stdio.h>

/* ---- making ---- */
ph_optimizer *ph__optimizer_retain(ph_optimizer *optimizer)
{
    atomic_fetch_add_explicit(&optimizer->references, 1, memory_order_relaxed);
    return optimizer;
}

void ph_optimizer_destroy(ph_optimizer *optimizer)
{
    if (!optimizer ||
        atomic_fetch_sub_explicit(&optimizer->references, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < optimizer->params.count; i++) {
        ph__trained *p = &optimizer->params.at[i];
        for (size_t k = 0; k < PH__OPTIMIZER_STATES; k++)
            ph_tensor_release(p->state[k]);
        ph_tensor_release(p->param);
        ph__free(p->name);
    }
    ph__vec_free(&optimizer->params);
    ph__free(optimizer->groups);
    ph_tensor_release(optimizer->steps);
    ph_tensor_release(optimizer->counters);
    ph_tensor_release(optimizer->grad_scale);
    ph_tensor_release(optimizer->nonfinite);
    ph__free(optimizer->operands);
    ph_device_release(optimizer->device);
    ph__free(optimizer);
}

typedef struct gathering {
    ph_optimizer *optimizer;
    const char *call;
    ph_status status;
} gathering;

static ph_status check_param(const char *name, const ph_tensor *x, const char *call)
{
    ph_dtype dtype = ph_tensor_dtype(x);
    if (dtype != PH_DTYPE_F32 && dtype != PH_DTYPE_F64)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: parameter %s is of %s; parameters that are trained are f32 "
                       "or f64 (autocast "
                       "computes with f32 ones in f16 or bf16)",
                       call, name, ph_dtype_name(dtype));
    if (!ph_tensor_is_contiguous(x))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: parameter %s is not contiguous", call, name);
    if (ph__leaf_part_of(x) == PH__LEAF_SHARDED)
        return ph_fail(PH_ERROR_STATE,
                       "%s: parameter %s is of a data-parallel network with shard_optimizer, and "
                       "gets no gradients; give the optimizer ph_data_parallel_shards",
                       call, name);
    return PH_OK;
}

static bool gather_param(const ph__entry *entry, void *user)
{
    gathering *g = user;
    if (!entry->tensor || entry->buffer || !ph_tensor_requires_grad(entry->tensor))
        return true;
    const char *name = ph__entry_name(entry);
    if (!name)
        return false;
    g->status = check_param(name, entry->tensor, g->call);
    if (g->status != PH_OK)
        return false;
    ph__trained p = {.name = ph__strdup(name)};
    if (!p.name || !ph__vec_push(&g->optimizer->params, p)) {
        ph__free(p.name);
        return false;
    }
    g->optimizer->params.at[g->optimizer->params.count - 1].param = ph_tensor_retain(entry->tensor);
    return true;
}

static ph_status gather_params(ph_optimizer *optimizer, const ph_module *module, const char *call)
{
    gathering g = {optimizer, call, PH_OK};
    if (!ph__module_walk(module, gather_param, &g))
        return g.status != PH_OK ? g.status
                                 : ph__fail_host_memory(call, "the parameters of an optimizer");
    size_t most = optimizer->params.count * (2 + PH__OPTIMIZER_STATES) + 4;
    optimizer->operands = ph__calloc(most, sizeof(ph_tensor *));
    return optimizer->operands ? PH_OK : ph__fail_host_memory(call, "the operands of a step");
}

/* The counters exist from the beginning, so that a step without other state can be captured at
 * once. */
static ph_status make_counters(ph_optimizer *optimizer, const char *call)
{
    ph_tape *tape;
    ph_device *device = optimizer->device;
    int64_t count = (int64_t)optimizer->params.count;
    bool on_device = false;
    for (size_t i = 0; i < optimizer->group_count; i++)
        on_device |= !optimizer->groups[i].settings.on_host;
    PH_TRY(ph_tensor_create(&optimizer->steps, device, PH_DTYPE_I64, PH_SCALAR));
    if (optimizer->kind->counts && on_device)
        PH_TRY(ph_tensor_create(&optimizer->counters, device, PH_DTYPE_F64,
                                PH_SHAPE(count, PH__COUNT_SIZE)));
    PH_TRY(ph__layer_begin(&tape, device, NULL));
    ph_tensor_fill(tape, optimizer->steps, 0);
    if (optimizer->counters)
        ph_tensor_fill(tape, optimizer->counters, 0);
    return ph__layer_finish(tape, PH_OK, call);
}

/* ---- groups ---- */
static void set_group(ph__optimizer_group *group, const ph__optimizer_settings *settings)
{
    group->settings = *settings;
    atomic_init(&group->lr, ph__bits_of(settings->lr));
}

static ph_status read_group(ph__optimizer_settings *settings, const ph_parameter_choice **choice,
                            const ph__optimizer_form *form, const void *options,
                            const ph__optimizer_settings *outer, size_t number)
{
    ph__optimizer_parts parts = {.parameters = NULL};
    ph_status status = form->read(settings, &parts, options, outer, form->call);
    if (status != PH_OK) {
        char place[48];
        (void)snprintf(place, sizeof place, " (in groups[%zu])", number);
        ph__error_suffix(place);
        return status;
    }
    if (parts.groups || parts.group_count > 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: groups[%zu] has groups of its own", form->call,
                       number);
    *choice = parts.parameters;
    return PH_OK;
}

static ph_status read_groups(ph_optimizer *optimizer, const ph__optimizer_form *form,
                             const ph__optimizer_settings *outer, const ph__optimizer_parts *parts)
{
    const ph_parameter_choice **choices =
        ph__calloc(parts->group_count + 1, sizeof(ph_parameter_choice *));
    if (!choices)
        return ph__fail_host_memory(form->call, "the groups of an optimizer");
    ph_status status = PH_OK;
    for (size_t i = 0; i < parts->group_count && status == PH_OK; i++) {
        ph__optimizer_settings settings;
        status = read_group(&settings, &choices[i], form,
                            (const char *)parts->groups + i * parts->size, outer, i);
        if (status == PH_OK)
            set_group(&optimizer->groups[i], &settings);
    }
    if (status == PH_OK)
        status = ph__groups_choose(optimizer, choices, form->call);
    ph__free(choices);
    return status;
}

static ph_status check_parts(const ph__optimizer_parts *parts, const char *call)
{
    if (parts->parameters)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: parameters is set outside of groups: it says which parameters a group "
                       "has",
                       call);
    if (!parts->groups && parts->group_count > 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: groups is NULL, and group_count is %zu", call,
                       parts->group_count);
    return PH_OK;
}

static ph_status fill_in(ph_optimizer *optimizer, ph_module *module, const ph__optimizer_form *form,
                         const ph__optimizer_settings *outer, const ph__optimizer_parts *parts)
{
    optimizer->group_count = parts->group_count + 1;
    optimizer->groups = ph__calloc(optimizer->group_count, sizeof *optimizer->groups);
    if (!optimizer->groups)
        return ph__fail_host_memory(form->call, "the groups of an optimizer");
    set_group(&optimizer->groups[parts->group_count], outer);
    PH_TRY(gather_params(optimizer, module, form->call));
    PH_TRY(read_groups(optimizer, form, outer, parts));
    return make_counters(optimizer, form->call);
}

ph_status ph__optimizer_create(ph_optimizer **out, ph_module *module, const void *options,
                               const ph__optimizer_form *form)
{
    ph__optimizer_settings outer;
    ph__optimizer_parts parts = {.parameters = NULL};
    if (!out)
        return ph__fail_null(form->call, "out");
    *out = NULL;
    if (!module)
        return ph__fail_null(form->call, "module");
    if (!options && !form->defaults)
        return ph__fail_null(form->call, "options");
    PH_TRY(form->read(&outer, &parts, options ? options : form->defaults, NULL, form->call));
    PH_TRY(check_parts(&parts, form->call));
    PH_TRY(ph__module_check_parameter_slots(module, form->call));
    ph_optimizer *optimizer = ph__calloc(1, sizeof *optimizer);
    if (!optimizer)
        return ph__fail_host_memory(form->call, "an optimizer");
    optimizer->kind = form->kind;
    atomic_init(&optimizer->references, 1);
    optimizer->device = ph_device_retain(ph_module_device(module));
    ph_status status = fill_in(optimizer, module, form, &outer, &parts);
    if (status != PH_OK) {
        ph_optimizer_destroy(optimizer);
        return status;
    }
    *out = optimizer;
    return PH_OK;
}

ph_status ph__optimizer_check_parts(const ph_optimizer *optimizer, const char *call)
{
    for (size_t i = 0; i < optimizer->params.count; i++)
        if (ph__leaf_part_of(optimizer->params.at[i].param) == PH__LEAF_SHARDED)
            return ph_fail(PH_ERROR_STATE,
                           "%s: parameter %s is of a data-parallel network with shard_optimizer "
                           "since this optimizer was made, and gets no gradients; make one of "
                           "ph_data_parallel_shards",
                           call, optimizer->params.at[i].name);
    return PH_OK;
}

/* ---- state ---- */
static ph_status make_tensor(ph_tensor **out, const ph__trained *p, ph_tape *tape,
                             ph__tensor_batch *batch)
{
    const size_t bytes = ph_tensor_bytes(p->param);
    ph__storage *storage;
    *out = batch && bytes > 0
               ? ph__tensor_batch_acquire(batch, p->param->dtype, &p->param->shape, bytes)
               : NULL;
    if (*out)
        return PH_OK;
    PH_TRY(ph__storage_create(&storage, ph__tensor_backend(p->param), bytes, ph_tape_stream(tape),
                              ph__tape_key(tape)));
    *out = ph__tensor_make(storage, p->param->dtype, &p->param->shape, NULL, 0);
    ph__storage_release(storage);
    return *out ? PH_OK : ph__fail_host_memory("ph_optimizer_step", "the state of a parameter");
}

double ph__optimizer_first_content(const ph_optimizer *optimizer, const ph__trained *p, size_t k,
                                   double lr)
{
    return optimizer->kind->filled_with_lr >> k & 1
               ? lr
               : ph__group_of(optimizer, p)->settings.initial[k];
}

ph_status ph__optimizer_make_state(const ph_optimizer *optimizer, ph__trained *p, ph_tape *tape,
                                   ph__tensor_batch *batch)
{
    const ph__optimizer_kind *kind = optimizer->kind;
    const ph__optimizer_group *group = ph__group_of(optimizer, p);
    for (size_t k = 0; k < PH__OPTIMIZER_STATES; k++) {
        if (!(group->settings.states >> k & 1))
            continue;
        if (!p->state[k])
            PH_TRY(make_tensor(&p->state[k], p, tape, batch));
        if (!p->started && kind->filled >> k & 1)
            ph_tensor_fill(tape, p->state[k],
                           ph__optimizer_first_content(optimizer, p, k, group->step_lr));
    }
    return ph_tape_status(tape);
}

ph_status ph__optimizer_make_counters(ph_optimizer *optimizer, ph_tape *tape)
{
    static const char call[] = "ph_optimizer_step";
    ph_tensor *counters;
    int64_t count = (int64_t)optimizer->params.count;
    if (optimizer->counters)
        return PH_OK;
    PH_TRY(ph_tensor_create(&counters, optimizer->device, PH_DTYPE_F64,
                            PH_SHAPE(count, PH__COUNT_SIZE)));
    double *values = ph__calloc((size_t)count * PH__COUNT_SIZE, sizeof *values);
    ph_status status =
        values ? PH_OK : ph__fail_host_memory(call, "the step counters of an optimizer");
    for (int64_t i = 0; values && i < count; i++)
        values[i * PH__COUNT_SIZE] = optimizer->params.at[i].started ? 1 : 0;
    if (status == PH_OK)
        status = ph_tensor_write(tape, counters, values, ph_tensor_bytes(counters));
    if (status == PH_OK)
        optimizer->counters = counters;
    else
        ph_tensor_release(counters);
    ph__free(values);
    return status;
}

double *ph__optimizer_counters(const ph_optimizer *optimizer, const ph__optimizer_group *group)
{
    return optimizer->counters && !group->settings.on_host
               ? (double *)(void *)optimizer->counters->data
               : NULL;
}

ph_status ph_optimizer_steps(uint64_t *out, ph_tape *tape, ph_optimizer *optimizer)
{
    static const char call[] = "ph_optimizer_steps";
    int64_t steps = 0;
    if (!out)
        return ph__fail_null(call, "out");
    *out = 0;
    if (!tape)
        return ph__fail_null(call, "tape");
    if (!optimizer)
        return ph__fail_null(call, "optimizer");
    PH_TRY(ph_tensor_read(tape, optimizer->steps, &steps, sizeof steps));
    *out = (uint64_t)steps;
    return PH_OK;
}
