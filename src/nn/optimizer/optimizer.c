/* SPDX-License-Identifier: MIT */
/* nn/optimizer/optimizer.c: optimizers: what they are made from, their learning rate, and what
 * they have done. */
#include "nn/optimizer/optimizer.h"
#include "base/alloc.h"
#include "base/option.h"
#include "base/status.h"
#include "nn/module/layers.h"
#include "nn/module/parameter_slots.h"
#include "nn/module/traverse.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include <math.h>

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
    ph_status status;
} gathering;

static ph_status check_param(const ph_optimizer *optimizer, const char *name, const ph_tensor *x)
{
    ph_dtype dtype = ph_tensor_dtype(x);
    if (dtype != PH_DTYPE_F32 && dtype != PH_DTYPE_F64)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "ph_%s_create: parameter %s is of %s; parameters that are trained are f32 "
                       "or f64 (autocast "
                       "computes with f32 ones in f16 or bf16)",
                       optimizer->kind->name, name, ph_dtype_name(dtype));
    if (!ph_tensor_is_contiguous(x))
        return ph_fail(PH_ERROR_ARGUMENT, "ph_%s_create: parameter %s is not contiguous",
                       optimizer->kind->name, name);
    return PH_OK;
}

static bool gather(const ph__entry *entry, void *user)
{
    gathering *g = user;
    if (!entry->tensor || entry->buffer || !ph_tensor_requires_grad(entry->tensor))
        return true;
    g->status = check_param(g->optimizer, entry->name, entry->tensor);
    if (g->status != PH_OK)
        return false;
    ph__trained p = {.name = ph__strdup(entry->name)};
    if (!p.name || !ph__vec_push(&g->optimizer->params, p)) {
        ph__free(p.name);
        return false;
    }
    g->optimizer->params.at[g->optimizer->params.count - 1].param = ph_tensor_retain(entry->tensor);
    return true;
}

static ph_status gather_params(ph_optimizer *optimizer, const ph_module *module, const char *call)
{
    gathering g = {optimizer, PH_OK};
    if (!ph__module_walk(module, gather, &g))
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
    PH_TRY(ph_tensor_create(&optimizer->steps, device, PH_DTYPE_I64, PH_SCALAR));
    if (optimizer->kind->counts && !optimizer->on_host)
        PH_TRY(ph_tensor_create(&optimizer->counters, device, PH_DTYPE_F64,
                                PH_SHAPE(count, PH__OPTIMIZER_COUNTER)));
    PH_TRY(ph__layer_begin(&tape, device, NULL));
    ph_tensor_fill(tape, optimizer->steps, 0);
    if (optimizer->counters)
        ph_tensor_fill(tape, optimizer->counters, 0);
    return ph__layer_finish(tape, PH_OK, call);
}

/* Takes what the kind has put into from; the rest is made here. */
static ph_status create(ph_optimizer **out, ph_module *module, const ph_optimizer *from, double lr,
                        const char *call)
{
    PH_TRY(ph__module_check_parameter_slots(module, call));
    ph_optimizer *optimizer = ph__alloc(sizeof *optimizer);
    if (!optimizer)
        return ph__fail_host_memory(call, "an optimizer");
    *optimizer = *from;
    atomic_init(&optimizer->references, 1);
    atomic_init(&optimizer->lr, ph__bits_of(lr));
    optimizer->device = ph_device_retain(ph_module_device(module));
    ph_status status = gather_params(optimizer, module, call);
    if (status == PH_OK)
        status = make_counters(optimizer, call);
    if (status != PH_OK) {
        ph_optimizer_destroy(optimizer);
        return status;
    }
    *out = optimizer;
    return PH_OK;
}

/* ---- what is allowed ---- */
static ph_status check_at_least_0(double value, const char *what, const char *call)
{
    if (value >= 0 && isfinite(value))
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT, "%s: %s is %g, and must be finite and not negative", call,
                   what, value);
}

static ph_status check_beta(double value, const char *what, const char *call)
{
    if (value >= 0 && value < 1)
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT, "%s: %s is %g, and must be at least 0 and below 1", call,
                   what, value);
}

ph_status ph_sgd_create(ph_optimizer **out, ph_module *module, const ph_sgd_options *options)
{
    static const char call[] = "ph_sgd_create";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!module)
        return ph__fail_null(call, "module");
    if (!options)
        return ph__fail_null(call, "options");
    if (!PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_sgd_options");
    double lr = ph__option_real(options->lr, 0), momentum = ph__option_real(options->momentum, 0),
           dampening = ph__option_real(options->dampening, 0),
           weight_decay = ph__option_real(options->weight_decay, 0);
    PH_TRY(check_at_least_0(lr, "lr", call));
    PH_TRY(check_at_least_0(momentum, "momentum", call));
    PH_TRY(check_at_least_0(weight_decay, "weight_decay", call));
    if (!isfinite(dampening))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: dampening is %g, and must be finite", call,
                       dampening);
    if (options->nesterov && (momentum <= 0 || dampening != 0))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: nesterov needs a momentum, and no dampening", call);
    ph_optimizer from = {.kind = &ph__optimizer_sgd,
                         .weight_decay = weight_decay,
                         .momentum = momentum,
                         .dampening = dampening,
                         .flags = (momentum > 0 ? PH__UPDATE_STATE : 0) |
                                  (options->nesterov ? PH__UPDATE_NESTEROV : 0) |
                                  (options->maximize ? PH__UPDATE_MAXIMIZE : 0),
                         .state_count = momentum > 0 ? 1 : 0};
    return create(out, module, &from, lr, call);
}

static ph_status create_adam(ph_optimizer **out, ph_module *module, const ph_adam_options *options,
                             const ph__optimizer_kind *kind, const char *call)
{
    static const ph_adam_options defaults = {.lr = 0};
    bool decoupled = kind == &ph__optimizer_adamw;
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!module)
        return ph__fail_null(call, "module");
    if (!options)
        options = &defaults;
    if (!PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_adam_options");
    double lr = ph__option_real(options->lr, 1e-3);
    ph_optimizer from = {.kind = kind,
                         .weight_decay =
                             ph__option_real(options->weight_decay, decoupled ? 0.01 : 0),
                         .beta1 = ph__option_real(options->beta1, 0.9),
                         .beta2 = ph__option_real(options->beta2, 0.999),
                         .eps = ph__option_real(options->eps, 1e-8),
                         .flags = (decoupled ? PH__UPDATE_DECOUPLED : 0) |
                                  (options->maximize ? PH__UPDATE_MAXIMIZE : 0) |
                                  (options->amsgrad ? PH__UPDATE_AMSGRAD : 0),
                         .on_host = options->not_capturable,
                         .state_count = options->amsgrad ? 3 : 2};
    PH_TRY(check_at_least_0(lr, "lr", call));
    PH_TRY(check_at_least_0(from.eps, "eps", call));
    PH_TRY(check_at_least_0(from.weight_decay, "weight_decay", call));
    PH_TRY(check_beta(from.beta1, "beta1", call));
    PH_TRY(check_beta(from.beta2, "beta2", call));
    return create(out, module, &from, lr, call);
}

ph_status ph_adam_create(ph_optimizer **out, ph_module *module, const ph_adam_options *options)
{
    return create_adam(out, module, options, &ph__optimizer_adam, "ph_adam_create");
}

ph_status ph_adamw_create(ph_optimizer **out, ph_module *module, const ph_adam_options *options)
{
    return create_adam(out, module, options, &ph__optimizer_adamw, "ph_adamw_create");
}

/* ---- state ---- */
ph_status ph__optimizer_make_state(const ph_optimizer *optimizer, ph__trained *p, ph_tape *tape)
{
    for (size_t k = 0; k < optimizer->state_count; k++) {
        ph__storage *storage;
        if (p->state[k])
            continue;
        PH_TRY(ph__storage_create(&storage, ph__tensor_backend(p->param), ph_tensor_bytes(p->param),
                                  ph_tape_stream(tape), ph__tape_key(tape)));
        p->state[k] = ph__tensor_make(storage, p->param->dtype, &p->param->shape, NULL, 0);
        ph__storage_release(storage);
        if (!p->state[k])
            return ph__fail_host_memory("ph_optimizer_step", "the state of a parameter");
    }
    return PH_OK;
}

ph_status ph__optimizer_make_counters(ph_optimizer *optimizer, ph_tape *tape)
{
    static const char call[] = "ph_optimizer_step";
    ph_tensor *counters;
    int64_t count = (int64_t)optimizer->params.count;
    if (optimizer->counters || optimizer->on_host)
        return PH_OK;
    PH_TRY(ph_tensor_create(&counters, optimizer->device, PH_DTYPE_F64,
                            PH_SHAPE(count, PH__OPTIMIZER_COUNTER)));
    double *values = ph__calloc((size_t)count * PH__OPTIMIZER_COUNTER, sizeof *values);
    ph_status status =
        values ? PH_OK : ph__fail_host_memory(call, "the step counters of an optimizer");
    for (int64_t i = 0; values && i < count; i++)
        values[i * PH__OPTIMIZER_COUNTER] = optimizer->params.at[i].started ? 1 : 0;
    if (status == PH_OK)
        status = ph_tensor_write(tape, counters, values, ph_tensor_bytes(counters));
    if (status == PH_OK)
        optimizer->counters = counters;
    else
        ph_tensor_release(counters);
    ph__free(values);
    return status;
}

void ph_optimizer_zero_grad(ph_tape *tape, ph_optimizer *optimizer)
{
    if (!optimizer) {
        if (tape)
            ph_tape_fail(tape, PH_ERROR_ARGUMENT,
                         "ph_optimizer_zero_grad: optimizer is NULL, and must not be");
        return;
    }
    for (size_t i = 0; i < optimizer->params.count; i++)
        ph_ignore(ph_tensor_set_grad(optimizer->params.at[i].param, NULL));
}

ph_status ph_optimizer_set_lr(ph_optimizer *optimizer, double lr)
{
    static const char call[] = "ph_optimizer_set_lr";
    if (!optimizer)
        return ph__fail_null(call, "optimizer");
    PH_TRY(check_at_least_0(lr, "lr", call));
    atomic_store_explicit(&optimizer->lr, ph__bits_of(lr), memory_order_relaxed);
    return PH_OK;
}

double ph_optimizer_lr(const ph_optimizer *optimizer)
{
    return optimizer ? ph__double_of(atomic_load_explicit(&optimizer->lr, memory_order_relaxed))
                     : 0;
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
