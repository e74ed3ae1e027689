/* SPDX-License-Identifier: MIT */
/* nn/optimizer/options_adam.c: Adam, AdamW, NAdam, RAdam and Adamax: their options. */
#include "nn/optimizer/adam.h"
#include "nn/optimizer/options.h"
#include <phonograph/optimizer_kinds.h>

/* number: weight_decay, beta1, beta2, eps */
static ph_status check_numbers(const ph__optimizer_settings *s, const char *call)
{
    PH_TRY(ph__option_at_least_0(s->lr, "lr", call));
    PH_TRY(ph__option_at_least_0(s->number[0], "weight_decay", call));
    PH_TRY(ph__option_beta(s->number[1], "beta1", call));
    PH_TRY(ph__option_beta(s->number[2], "beta2", call));
    return ph__option_at_least_0(s->number[3], "eps", call);
}

static ph_status read_adam(ph__optimizer_settings *s, ph__optimizer_parts *parts,
                           const void *options, const ph__optimizer_settings *outer,
                           const char *call)
{
    const ph_adam_options *o = options;
    if (!PH__RESERVED_OK(o))
        return ph__fail_reserved(call, "ph_adam_options");
    *parts = PH__OPTIMIZER_PARTS(o);
    *s =
        (ph__optimizer_settings){.lr = ph__option_lr(o->lr, outer, 1e-3),
                                 .number = {ph__option_number(o->weight_decay, outer, 0, 0),
                                            ph__option_number(o->beta1, outer, 1, 0.9),
                                            ph__option_number(o->beta2, outer, 2, 0.999),
                                            ph__option_number(o->eps, outer, 3, 1e-8)},
                                 .flags = ph__option_flag(o->maximize, PH__UPDATE_MAXIMIZE, outer) |
                                          ph__option_flag(o->amsgrad, PH__UPDATE_AMSGRAD, outer),
                                 .on_host = ph__option_on_host(o->not_capturable, outer)};
    s->states = s->flags & PH__UPDATE_AMSGRAD ? 7 : 3;
    PH_TRY(check_numbers(s, call));
    return PH_OK;
}

ph_status ph_adam_create(ph_optimizer **out, ph_module *module, const ph_adam_options *options)
{
    static const ph_adam_options defaults = {.lr = 0};
    static const ph__optimizer_form form = {&ph__optimizer_adam, "ph_adam_create", &defaults,
                                            read_adam};
    return ph__optimizer_create(out, module, options, &form);
}

static ph_status read_adamw(ph__optimizer_settings *s, ph__optimizer_parts *parts,
                            const void *options, const ph__optimizer_settings *outer,
                            const char *call)
{
    const ph_adam_options *o = options;
    if (!PH__RESERVED_OK(o))
        return ph__fail_reserved(call, "ph_adam_options");
    *parts = PH__OPTIMIZER_PARTS(o);
    *s = (ph__optimizer_settings){
        .lr = ph__option_lr(o->lr, outer, 1e-3),
        .number = {ph__option_number(o->weight_decay, outer, 0, 0.01),
                   ph__option_number(o->beta1, outer, 1, 0.9),
                   ph__option_number(o->beta2, outer, 2, 0.999),
                   ph__option_number(o->eps, outer, 3, 1e-8)},
        .flags = PH__UPDATE_DECOUPLED | ph__option_flag(o->maximize, PH__UPDATE_MAXIMIZE, outer) |
                 ph__option_flag(o->amsgrad, PH__UPDATE_AMSGRAD, outer),
        .on_host = ph__option_on_host(o->not_capturable, outer)};
    s->states = s->flags & PH__UPDATE_AMSGRAD ? 7 : 3;
    PH_TRY(check_numbers(s, call));
    return PH_OK;
}

ph_status ph_adamw_create(ph_optimizer **out, ph_module *module, const ph_adam_options *options)
{
    static const ph_adam_options defaults = {.lr = 0};
    static const ph__optimizer_form form = {&ph__optimizer_adamw, "ph_adamw_create", &defaults,
                                            read_adamw};
    return ph__optimizer_create(out, module, options, &form);
}

static ph_status read_nadam(ph__optimizer_settings *s, ph__optimizer_parts *parts,
                            const void *options, const ph__optimizer_settings *outer,
                            const char *call)
{
    const ph_nadam_options *o = options;
    if (!PH__RESERVED_OK(o))
        return ph__fail_reserved(call, "ph_nadam_options");
    *parts = PH__OPTIMIZER_PARTS(o);
    *s = (ph__optimizer_settings){
        .lr = ph__option_lr(o->lr, outer, 2e-3),
        .number = {ph__option_number(o->weight_decay, outer, 0, 0),
                   ph__option_number(o->beta1, outer, 1, 0.9),
                   ph__option_number(o->beta2, outer, 2, 0.999),
                   ph__option_number(o->eps, outer, 3, 1e-8),
                   ph__option_number(o->momentum_decay, outer, 4, 4e-3)},
        .flags = ph__option_flag(o->maximize, PH__UPDATE_MAXIMIZE, outer) |
                 ph__option_flag(o->decoupled_weight_decay, PH__UPDATE_DECOUPLED, outer),
        .states = 3,
        .on_host = ph__option_on_host(o->not_capturable, outer)};
    PH_TRY(check_numbers(s, call));
    PH_TRY(ph__option_at_least_0(s->number[4], "momentum_decay", call));
    return PH_OK;
}

ph_status ph_nadam_create(ph_optimizer **out, ph_module *module, const ph_nadam_options *options)
{
    static const ph_nadam_options defaults = {.lr = 0};
    static const ph__optimizer_form form = {&ph__optimizer_nadam, "ph_nadam_create", &defaults,
                                            read_nadam};
    return ph__optimizer_create(out, module, options, &form);
}

static ph_status read_radam(ph__optimizer_settings *s, ph__optimizer_parts *parts,
                            const void *options, const ph__optimizer_settings *outer,
                            const char *call)
{
    const ph_radam_options *o = options;
    if (!PH__RESERVED_OK(o))
        return ph__fail_reserved(call, "ph_radam_options");
    *parts = PH__OPTIMIZER_PARTS(o);
    *s = (ph__optimizer_settings){
        .lr = ph__option_lr(o->lr, outer, 1e-3),
        .number = {ph__option_number(o->weight_decay, outer, 0, 0),
                   ph__option_number(o->beta1, outer, 1, 0.9),
                   ph__option_number(o->beta2, outer, 2, 0.999),
                   ph__option_number(o->eps, outer, 3, 1e-8)},
        .flags = ph__option_flag(o->maximize, PH__UPDATE_MAXIMIZE, outer) |
                 ph__option_flag(o->decoupled_weight_decay, PH__UPDATE_DECOUPLED, outer),
        .states = 3,
        .on_host = ph__option_on_host(o->not_capturable, outer)};
    PH_TRY(check_numbers(s, call));
    return PH_OK;
}

ph_status ph_radam_create(ph_optimizer **out, ph_module *module, const ph_radam_options *options)
{
    static const ph_radam_options defaults = {.lr = 0};
    static const ph__optimizer_form form = {&ph__optimizer_radam, "ph_radam_create", &defaults,
                                            read_radam};
    return ph__optimizer_create(out, module, options, &form);
}

static ph_status read_adamax(ph__optimizer_settings *s, ph__optimizer_parts *parts,
                             const void *options, const ph__optimizer_settings *outer,
                             const char *call)
{
    const ph_adamax_options *o = options;
    if (!PH__RESERVED_OK(o))
        return ph__fail_reserved(call, "ph_adamax_options");
    *parts = PH__OPTIMIZER_PARTS(o);
    *s = (ph__optimizer_settings){.lr = ph__option_lr(o->lr, outer, 2e-3),
                                  .number = {ph__option_number(o->weight_decay, outer, 0, 0),
                                             ph__option_number(o->beta1, outer, 1, 0.9),
                                             ph__option_number(o->beta2, outer, 2, 0.999),
                                             ph__option_number(o->eps, outer, 3, 1e-8)},
                                  .flags = ph__option_flag(o->maximize, PH__UPDATE_MAXIMIZE, outer),
                                  .states = 3,
                                  .on_host = ph__option_on_host(o->not_capturable, outer)};
    PH_TRY(check_numbers(s, call));
    return PH_OK;
}

ph_status ph_adamax_create(ph_optimizer **out, ph_module *module, const ph_adamax_options *options)
{
    static const ph_adamax_options defaults = {.lr = 0};
    static const ph__optimizer_form form = {&ph__optimizer_adamax, "ph_adamax_create", &defaults,
                                            read_adamax};
    return ph__optimizer_create(out, module, options, &form);
}
