/* SPDX-License-Identifier: MIT */
/* nn/optimizer/options_adagrad.c: Adagrad, Adadelta and RMSprop: their options. */
#include "nn/optimizer/adagrad.h"
#include "nn/optimizer/options.h"
#include <phonograph/optimizer_kinds.h>

static ph_status read_adagrad(ph__optimizer_settings *s, ph__optimizer_parts *parts,
                              const void *options, const ph__optimizer_settings *outer,
                              const char *call)
{
    const ph_adagrad_options *o = options;
    if (!PH__RESERVED_OK(o))
        return ph__fail_reserved(call, "ph_adagrad_options");
    *parts = PH__OPTIMIZER_PARTS(o);
    *s = (ph__optimizer_settings){
        .lr = ph__option_lr(o->lr, outer, 1e-2),
        .number = {ph__option_number(o->weight_decay, outer, 0, 0),
                   ph__option_number(o->lr_decay, outer, 1, 0),
                   ph__option_number(o->eps, outer, 2, 1e-10),
                   ph__option_number(o->initial_accumulator_value, outer, 3, 0)},
        .flags = ph__option_flag(o->maximize, PH__UPDATE_MAXIMIZE, outer),
        .states = 1,
        .on_host = ph__option_on_host(o->not_capturable, outer)};
    s->initial[0] = s->number[3];
    PH_TRY(ph__option_at_least_0(s->lr, "lr", call));
    PH_TRY(ph__option_at_least_0(s->number[0], "weight_decay", call));
    PH_TRY(ph__option_at_least_0(s->number[1], "lr_decay", call));
    PH_TRY(ph__option_at_least_0(s->number[2], "eps", call));
    PH_TRY(ph__option_at_least_0(s->number[3], "initial_accumulator_value", call));
    return PH_OK;
}

ph_status ph_adagrad_create(ph_optimizer **out, ph_module *module,
                            const ph_adagrad_options *options)
{
    static const ph_adagrad_options defaults = {.lr = 0};
    static const ph__optimizer_form form = {&ph__optimizer_adagrad, "ph_adagrad_create", &defaults,
                                            read_adagrad};
    return ph__optimizer_create(out, module, options, &form);
}

static ph_status read_adadelta(ph__optimizer_settings *s, ph__optimizer_parts *parts,
                               const void *options, const ph__optimizer_settings *outer,
                               const char *call)
{
    const ph_adadelta_options *o = options;
    if (!PH__RESERVED_OK(o))
        return ph__fail_reserved(call, "ph_adadelta_options");
    *parts = PH__OPTIMIZER_PARTS(o);
    *s = (ph__optimizer_settings){.lr = ph__option_lr(o->lr, outer, 1),
                                  .number = {ph__option_number(o->weight_decay, outer, 0, 0),
                                             ph__option_number(o->rho, outer, 1, 0.9),
                                             ph__option_number(o->eps, outer, 2, 1e-6)},
                                  .flags = ph__option_flag(o->maximize, PH__UPDATE_MAXIMIZE, outer),
                                  .states = 3,
                                  .on_host = ph__option_on_host(o->not_capturable, outer)};
    PH_TRY(ph__option_at_least_0(s->lr, "lr", call));
    PH_TRY(ph__option_at_least_0(s->number[0], "weight_decay", call));
    PH_TRY(ph__option_at_least_0(s->number[2], "eps", call));
    if (!(s->number[1] >= 0 && s->number[1] <= 1))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: rho is %g, and must be at least 0 and at most 1",
                       call, s->number[1]);
    return PH_OK;
}

ph_status ph_adadelta_create(ph_optimizer **out, ph_module *module,
                             const ph_adadelta_options *options)
{
    static const ph_adadelta_options defaults = {.lr = 0};
    static const ph__optimizer_form form = {&ph__optimizer_adadelta, "ph_adadelta_create",
                                            &defaults, read_adadelta};
    return ph__optimizer_create(out, module, options, &form);
}

static ph_status read_rmsprop(ph__optimizer_settings *s, ph__optimizer_parts *parts,
                              const void *options, const ph__optimizer_settings *outer,
                              const char *call)
{
    const ph_rmsprop_options *o = options;
    if (!PH__RESERVED_OK(o))
        return ph__fail_reserved(call, "ph_rmsprop_options");
    *parts = PH__OPTIMIZER_PARTS(o);
    *s =
        (ph__optimizer_settings){.lr = ph__option_lr(o->lr, outer, 1e-2),
                                 .number = {ph__option_number(o->weight_decay, outer, 0, 0),
                                            ph__option_number(o->alpha, outer, 1, 0.99),
                                            ph__option_number(o->eps, outer, 2, 1e-8),
                                            ph__option_number(o->momentum, outer, 3, 0)},
                                 .flags = ph__option_flag(o->maximize, PH__UPDATE_MAXIMIZE, outer) |
                                          ph__option_flag(o->centered, PH__UPDATE_CENTERED, outer),
                                 .on_host = ph__option_on_host(o->not_capturable, outer)};
    PH_TRY(ph__option_at_least_0(s->lr, "lr", call));
    PH_TRY(ph__option_at_least_0(s->number[0], "weight_decay", call));
    PH_TRY(ph__option_at_least_0(s->number[1], "alpha", call));
    PH_TRY(ph__option_at_least_0(s->number[2], "eps", call));
    PH_TRY(ph__option_at_least_0(s->number[3], "momentum", call));
    s->states = s->flags & PH__UPDATE_CENTERED ? 5 : 1;
    if (s->number[3] > 0) {
        s->flags |= PH__UPDATE_STATE;
        s->states |= 2;
    }
    return PH_OK;
}

ph_status ph_rmsprop_create(ph_optimizer **out, ph_module *module,
                            const ph_rmsprop_options *options)
{
    static const ph_rmsprop_options defaults = {.lr = 0};
    static const ph__optimizer_form form = {&ph__optimizer_rmsprop, "ph_rmsprop_create", &defaults,
                                            read_rmsprop};
    return ph__optimizer_create(out, module, options, &form);
}
