/* SPDX-License-Identifier: MIT */
/* nn/optimizer/options_sgd.c: SGD, ASGD, Rprop and Lion: their options. */
#include "nn/optimizer/options.h"
#include "nn/optimizer/sgd.h"
#include <phonograph/optimizer_kinds.h>

static ph_status read_sgd(ph__optimizer_settings *s, ph__optimizer_parts *parts,
                          const void *options, const ph__optimizer_settings *outer,
                          const char *call)
{
    const ph_sgd_options *o = options;
    if (!PH__RESERVED_OK(o))
        return ph__fail_reserved(call, "ph_sgd_options");
    *parts = PH__OPTIMIZER_PARTS(o);
    *s =
        (ph__optimizer_settings){.lr = ph__option_lr(o->lr, outer, 0),
                                 .number = {ph__option_number(o->weight_decay, outer, 0, 0),
                                            ph__option_number(o->momentum, outer, 1, 0),
                                            ph__option_number(o->dampening, outer, 2, 0)},
                                 .flags = ph__option_flag(o->maximize, PH__UPDATE_MAXIMIZE, outer) |
                                          ph__option_flag(o->nesterov, PH__UPDATE_NESTEROV, outer)};
    PH_TRY(ph__option_at_least_0(s->lr, "lr", call));
    PH_TRY(ph__option_at_least_0(s->number[0], "weight_decay", call));
    PH_TRY(ph__option_at_least_0(s->number[1], "momentum", call));
    PH_TRY(ph__option_finite(s->number[2], "dampening", call));
    if (s->flags & PH__UPDATE_NESTEROV && (s->number[1] <= 0 || s->number[2] != 0))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: nesterov needs a momentum, and no dampening", call);
    if (s->number[1] > 0) {
        s->flags |= PH__UPDATE_STATE;
        s->states = 1;
        s->odd_first = s->number[2] != 0;
    }
    return PH_OK;
}

ph_status ph_sgd_create(ph_optimizer **out, ph_module *module, const ph_sgd_options *options)
{
    static const ph__optimizer_form form = {&ph__optimizer_sgd, "ph_sgd_create", NULL, read_sgd};
    return ph__optimizer_create(out, module, options, &form);
}

static ph_status read_asgd(ph__optimizer_settings *s, ph__optimizer_parts *parts,
                           const void *options, const ph__optimizer_settings *outer,
                           const char *call)
{
    const ph_asgd_options *o = options;
    if (!PH__RESERVED_OK(o))
        return ph__fail_reserved(call, "ph_asgd_options");
    *parts = PH__OPTIMIZER_PARTS(o);
    *s = (ph__optimizer_settings){.lr = ph__option_lr(o->lr, outer, 1e-2),
                                  .number = {ph__option_number(o->weight_decay, outer, 0, 0),
                                             ph__option_number(o->lambd, outer, 1, 1e-4),
                                             ph__option_number(o->alpha, outer, 2, 0.75),
                                             ph__option_number(o->t0, outer, 3, 1e6)},
                                  .flags = ph__option_flag(o->maximize, PH__UPDATE_MAXIMIZE, outer),
                                  .states = 1,
                                  .on_host = ph__option_on_host(o->not_capturable, outer)};
    PH_TRY(ph__option_at_least_0(s->lr, "lr", call));
    PH_TRY(ph__option_at_least_0(s->number[0], "weight_decay", call));
    PH_TRY(ph__option_finite(s->number[1], "lambd", call));
    PH_TRY(ph__option_finite(s->number[2], "alpha", call));
    PH_TRY(ph__option_finite(s->number[3], "t0", call));
    return PH_OK;
}

ph_status ph_asgd_create(ph_optimizer **out, ph_module *module, const ph_asgd_options *options)
{
    static const ph_asgd_options defaults = {.lr = 0};
    static const ph__optimizer_form form = {&ph__optimizer_asgd, "ph_asgd_create", &defaults,
                                            read_asgd};
    return ph__optimizer_create(out, module, options, &form);
}

static ph_status read_rprop(ph__optimizer_settings *s, ph__optimizer_parts *parts,
                            const void *options, const ph__optimizer_settings *outer,
                            const char *call)
{
    const ph_rprop_options *o = options;
    if (!PH__RESERVED_OK(o))
        return ph__fail_reserved(call, "ph_rprop_options");
    *parts = PH__OPTIMIZER_PARTS(o);
    *s = (ph__optimizer_settings){.lr = ph__option_lr(o->lr, outer, 1e-2),
                                  .number = {ph__option_number(o->eta_minus, outer, 0, 0.5),
                                             ph__option_number(o->eta_plus, outer, 1, 1.2),
                                             ph__option_number(o->step_min, outer, 2, 1e-6),
                                             ph__option_number(o->step_max, outer, 3, 50)},
                                  .flags = ph__option_flag(o->maximize, PH__UPDATE_MAXIMIZE, outer),
                                  .states = 3,
                                  .on_host = ph__option_on_host(o->not_capturable, outer)};
    PH_TRY(ph__option_at_least_0(s->lr, "lr", call));
    PH_TRY(ph__option_finite(s->number[1], "eta_plus", call));
    PH_TRY(ph__option_at_least_0(s->number[2], "step_min", call));
    PH_TRY(ph__option_at_least_0(s->number[3], "step_max", call));
    if (!(s->number[0] > 0 && s->number[0] < 1 && s->number[1] > 1))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: eta_minus is %g and eta_plus %g: the first must be between 0 and 1, "
                       "the second above 1",
                       call, s->number[0], s->number[1]);
    if (s->number[2] > s->number[3])
        return ph_fail(PH_ERROR_ARGUMENT, "%s: step_min is %g, and step_max only %g", call,
                       s->number[2], s->number[3]);
    return PH_OK;
}

ph_status ph_rprop_create(ph_optimizer **out, ph_module *module, const ph_rprop_options *options)
{
    static const ph_rprop_options defaults = {.lr = 0};
    static const ph__optimizer_form form = {&ph__optimizer_rprop, "ph_rprop_create", &defaults,
                                            read_rprop};
    return ph__optimizer_create(out, module, options, &form);
}

static ph_status read_lion(ph__optimizer_settings *s, ph__optimizer_parts *parts,
                           const void *options, const ph__optimizer_settings *outer,
                           const char *call)
{
    const ph_lion_options *o = options;
    if (!PH__RESERVED_OK(o))
        return ph__fail_reserved(call, "ph_lion_options");
    *parts = PH__OPTIMIZER_PARTS(o);
    *s = (ph__optimizer_settings){.lr = ph__option_lr(o->lr, outer, 1e-4),
                                  .number = {ph__option_number(o->weight_decay, outer, 0, 0),
                                             ph__option_number(o->beta1, outer, 1, 0.9),
                                             ph__option_number(o->beta2, outer, 2, 0.99)},
                                  .flags = ph__option_flag(o->maximize, PH__UPDATE_MAXIMIZE, outer),
                                  .states = 1};
    PH_TRY(ph__option_at_least_0(s->lr, "lr", call));
    PH_TRY(ph__option_at_least_0(s->number[0], "weight_decay", call));
    PH_TRY(ph__option_beta(s->number[1], "beta1", call));
    PH_TRY(ph__option_beta(s->number[2], "beta2", call));
    return PH_OK;
}

ph_status ph_lion_create(ph_optimizer **out, ph_module *module, const ph_lion_options *options)
{
    static const ph_lion_options defaults = {.lr = 0};
    static const ph__optimizer_form form = {&ph__optimizer_lion, "ph_lion_create", &defaults,
                                            read_lion};
    return ph__optimizer_create(out, module, options, &form);
}
