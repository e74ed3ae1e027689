/* SPDX-License-Identifier: MIT */
/* tests/support/optimizer_rules.c: which optimizers there are, with which numbers. */
#include "support/optimizer_rules.h"
#include <stdio.h>

/* ---- rules ---- */
void oc_describe(char text[200], const oc_rule *r)
{
    static const char *const names[OC_KINDS] = {"sgd",     "adam",  "adamw",  "rmsprop",
                                                "nadam",   "radam", "adamax", "adadelta",
                                                "adagrad", "asgd",  "rprop",  "lion"};
    (void)snprintf(
        text, 200,
        "%s lr %g momentum %g dampening %g weight_decay %g nesterov %d betas %g %g eps %g%s%s%s",
        names[r->kind], r->lr, r->momentum, r->dampening, r->weight_decay, r->nesterov, r->beta1,
        r->beta2, r->eps, r->not_capturable ? " not capturable" : "",
        r->maximize ? " maximize" : "",
        r->amsgrad     ? " amsgrad"
        : r->centered  ? " centered"
        : r->decoupled ? " decoupled"
                       : "");
}

static double or_zero(double value)
{
    return value == 0 ? PH_ZERO : value;
}

static ph_status make_rmsprop(ph_optimizer **out, const oc_rule *r, ph_module *module)
{
    ph_rmsprop_options options = {
        .lr = or_zero(r->lr),
        .alpha = or_zero(r->alpha),
        .eps = or_zero(r->eps),
        .weight_decay = or_zero(r->weight_decay),
        .momentum = or_zero(r->momentum),
        .centered = r->centered,
        .not_capturable = r->not_capturable,
        .maximize = r->maximize,
    };
    ph_parameter_choice choice = {.names = &r->group, .name_count = 1};
    ph_rmsprop_options group = {.parameters = &choice, .not_capturable = r->group_on_host};
    options.groups = r->group ? &group : NULL;
    options.group_count = r->group != NULL;
    return ph_rmsprop_create(out, module, &options);
}

static ph_status make_nadam(ph_optimizer **out, const oc_rule *r, ph_module *module)
{
    ph_nadam_options options = {
        .lr = or_zero(r->lr),
        .beta1 = or_zero(r->beta1),
        .beta2 = or_zero(r->beta2),
        .eps = or_zero(r->eps),
        .weight_decay = or_zero(r->weight_decay),
        .momentum_decay = or_zero(r->momentum_decay),
        .decoupled_weight_decay = r->decoupled,
        .not_capturable = r->not_capturable,
        .maximize = r->maximize,
    };
    ph_parameter_choice choice = {.names = &r->group, .name_count = 1};
    ph_nadam_options group = {.parameters = &choice, .not_capturable = r->group_on_host};
    options.groups = r->group ? &group : NULL;
    options.group_count = r->group != NULL;
    return ph_nadam_create(out, module, &options);
}

static ph_status make_radam(ph_optimizer **out, const oc_rule *r, ph_module *module)
{
    ph_radam_options options = {
        .lr = or_zero(r->lr),
        .beta1 = or_zero(r->beta1),
        .beta2 = or_zero(r->beta2),
        .eps = or_zero(r->eps),
        .weight_decay = or_zero(r->weight_decay),
        .decoupled_weight_decay = r->decoupled,
        .not_capturable = r->not_capturable,
        .maximize = r->maximize,
    };
    ph_parameter_choice choice = {.names = &r->group, .name_count = 1};
    ph_radam_options group = {.parameters = &choice, .not_capturable = r->group_on_host};
    options.groups = r->group ? &group : NULL;
    options.group_count = r->group != NULL;
    return ph_radam_create(out, module, &options);
}

static ph_status make_adamax(ph_optimizer **out, const oc_rule *r, ph_module *module)
{
    ph_adamax_options options = {
        .lr = or_zero(r->lr),
        .beta1 = or_zero(r->beta1),
        .beta2 = or_zero(r->beta2),
        .eps = or_zero(r->eps),
        .weight_decay = or_zero(r->weight_decay),
        .not_capturable = r->not_capturable,
        .maximize = r->maximize,
    };
    ph_parameter_choice choice = {.names = &r->group, .name_count = 1};
    ph_adamax_options group = {.parameters = &choice, .not_capturable = r->group_on_host};
    options.groups = r->group ? &group : NULL;
    options.group_count = r->group != NULL;
    return ph_adamax_create(out, module, &options);
}

static ph_status make_adadelta(ph_optimizer **out, const oc_rule *r, ph_module *module)
{
    ph_adadelta_options options = {
        .lr = or_zero(r->lr),
        .rho = or_zero(r->alpha),
        .eps = or_zero(r->eps),
        .weight_decay = or_zero(r->weight_decay),
        .not_capturable = r->not_capturable,
        .maximize = r->maximize,
    };
    ph_parameter_choice choice = {.names = &r->group, .name_count = 1};
    ph_adadelta_options group = {.parameters = &choice, .not_capturable = r->group_on_host};
    options.groups = r->group ? &group : NULL;
    options.group_count = r->group != NULL;
    return ph_adadelta_create(out, module, &options);
}

static ph_status make_adagrad(ph_optimizer **out, const oc_rule *r, ph_module *module)
{
    ph_adagrad_options options = {
        .lr = or_zero(r->lr),
        .lr_decay = or_zero(r->lr_decay),
        .weight_decay = or_zero(r->weight_decay),
        .initial_accumulator_value = or_zero(r->initial),
        .eps = or_zero(r->eps),
        .not_capturable = r->not_capturable,
        .maximize = r->maximize,
    };
    ph_parameter_choice choice = {.names = &r->group, .name_count = 1};
    ph_adagrad_options group = {.parameters = &choice, .not_capturable = r->group_on_host};
    options.groups = r->group ? &group : NULL;
    options.group_count = r->group != NULL;
    return ph_adagrad_create(out, module, &options);
}

static ph_status make_asgd(ph_optimizer **out, const oc_rule *r, ph_module *module)
{
    ph_asgd_options options = {
        .lr = or_zero(r->lr),
        .lambd = or_zero(r->lambd),
        .alpha = or_zero(r->alpha),
        .t0 = or_zero(r->t0),
        .weight_decay = or_zero(r->weight_decay),
        .not_capturable = r->not_capturable,
        .maximize = r->maximize,
    };
    ph_parameter_choice choice = {.names = &r->group, .name_count = 1};
    ph_asgd_options group = {.parameters = &choice, .not_capturable = r->group_on_host};
    options.groups = r->group ? &group : NULL;
    options.group_count = r->group != NULL;
    return ph_asgd_create(out, module, &options);
}

static ph_status make_rprop(ph_optimizer **out, const oc_rule *r, ph_module *module)
{
    ph_rprop_options options = {
        .lr = or_zero(r->lr),
        .eta_minus = or_zero(r->less),
        .eta_plus = or_zero(r->more),
        .step_min = or_zero(r->least),
        .step_max = or_zero(r->most),
        .not_capturable = r->not_capturable,
        .maximize = r->maximize,
    };
    ph_parameter_choice choice = {.names = &r->group, .name_count = 1};
    ph_rprop_options group = {.parameters = &choice, .not_capturable = r->group_on_host};
    options.groups = r->group ? &group : NULL;
    options.group_count = r->group != NULL;
    return ph_rprop_create(out, module, &options);
}

static ph_status make_lion(ph_optimizer **out, const oc_rule *r, ph_module *module)
{
    ph_lion_options options = {
        .lr = or_zero(r->lr),
        .beta1 = or_zero(r->beta1),
        .beta2 = or_zero(r->beta2),
        .weight_decay = or_zero(r->weight_decay),
        .maximize = r->maximize,
    };
    return ph_lion_create(out, module, &options);
}

static ph_status make_sgd(ph_optimizer **out, const oc_rule *r, ph_module *module)
{
    ph_sgd_options options = {.lr = r->lr,
                              .momentum = r->momentum,
                              .dampening = r->dampening,
                              .weight_decay = r->weight_decay,
                              .nesterov = r->nesterov,
                              .maximize = r->maximize};
    return ph_sgd_create(out, module, &options);
}

static ph_adam_options adam_options(const oc_rule *r)
{
    return (ph_adam_options){.lr = or_zero(r->lr),
                             .beta1 = or_zero(r->beta1),
                             .beta2 = or_zero(r->beta2),
                             .eps = or_zero(r->eps),
                             .weight_decay = or_zero(r->weight_decay),
                             .not_capturable = r->not_capturable,
                             .maximize = r->maximize,
                             .amsgrad = r->amsgrad};
}

static ph_status make_adam(ph_optimizer **out, const oc_rule *r, ph_module *module)
{
    ph_adam_options options = adam_options(r);
    ph_parameter_choice choice = {.names = &r->group, .name_count = 1};
    ph_adam_options group = {.parameters = &choice, .not_capturable = r->group_on_host};
    options.groups = r->group ? &group : NULL;
    options.group_count = r->group != NULL;
    return ph_adam_create(out, module, &options);
}

static ph_status make_adamw(ph_optimizer **out, const oc_rule *r, ph_module *module)
{
    ph_adam_options options = adam_options(r);
    ph_parameter_choice choice = {.names = &r->group, .name_count = 1};
    ph_adam_options group = {.parameters = &choice, .not_capturable = r->group_on_host};
    options.groups = r->group ? &group : NULL;
    options.group_count = r->group != NULL;
    return ph_adamw_create(out, module, &options);
}

ph_optimizer *oc_create(const oc_rule *r, ph_module *module)
{
    static ph_status (*const make[OC_KINDS])(ph_optimizer **, const oc_rule *, ph_module *) = {
        [OC_SGD] = make_sgd,         [OC_ADAM] = make_adam,         [OC_ADAMW] = make_adamw,
        [OC_RMSPROP] = make_rmsprop, [OC_NADAM] = make_nadam,       [OC_RADAM] = make_radam,
        [OC_ADAMAX] = make_adamax,   [OC_ADADELTA] = make_adadelta, [OC_ADAGRAD] = make_adagrad,
        [OC_ASGD] = make_asgd,       [OC_RPROP] = make_rprop,       [OC_LION] = make_lion};
    ph_optimizer *optimizer;
    assert_ok(make[r->kind](&optimizer, r, module));
    return optimizer;
}

oc_rule oc_adam_rule(unsigned number)
{
    return (oc_rule){.kind = number & 1 ? OC_ADAMW : OC_ADAM,
                     .lr = 0.05,
                     .beta1 = number & 2 ? 0.8 : 0.9,
                     .beta2 = number & 2 ? 0.95 : 0.999,
                     .eps = number & 4 ? 1e-3 : 1e-8,
                     .weight_decay = number & 4 ? 0.1 : 0,
                     .not_capturable = number & OC_ADAM_ON_HOST,
                     .maximize = number & 32,
                     .amsgrad = number & 64};
}

ph_dtype oc_adam_dtype(unsigned number)
{
    return number & 16 ? PH_DTYPE_F64 : PH_DTYPE_F32;
}

double oc_adam_bound(ph_dtype dtype)
{
    return dtype == PH_DTYPE_F32 ? 1e-5 : 1e-12;
}

static const oc_rule kind_rules[] = {
    {.kind = OC_RMSPROP, .lr = 0.02, .alpha = 0.99, .eps = 1e-3},
    {.kind = OC_RMSPROP,
     .lr = 0.02,
     .alpha = 0.9,
     .eps = 1e-3,
     .momentum = 0.9,
     .weight_decay = 0.1},
    {.kind = OC_RMSPROP,
     .lr = 0.02,
     .alpha = 0.9,
     .eps = 1e-2,
     .centered = true,
     .not_capturable = true},
    {.kind = OC_RMSPROP,
     .lr = 0.02,
     .alpha = 0.9,
     .eps = 1e-2,
     .momentum = 0.5,
     .centered = true,
     .maximize = true},
    {.kind = OC_NADAM,
     .lr = 0.02,
     .beta1 = 0.9,
     .beta2 = 0.999,
     .eps = 1e-8,
     .momentum_decay = 4e-3},
    {.kind = OC_NADAM,
     .lr = 0.02,
     .beta1 = 0.8,
     .beta2 = 0.95,
     .eps = 1e-3,
     .momentum_decay = 0.1,
     .weight_decay = 0.1,
     .maximize = true},
    {.kind = OC_NADAM,
     .lr = 0.02,
     .beta1 = 0.8,
     .beta2 = 0.95,
     .eps = 1e-3,
     .weight_decay = 0.1,
     .decoupled = true,
     .not_capturable = true},
    {.kind = OC_RADAM, .lr = 0.02, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
    {.kind = OC_RADAM,
     .lr = 0.02,
     .beta1 = 0.8,
     .beta2 = 0.95,
     .eps = 1e-3,
     .weight_decay = 0.1,
     .maximize = true},
    {.kind = OC_RADAM,
     .lr = 0.02,
     .beta1 = 0.8,
     .beta2 = 0.95,
     .eps = 1e-3,
     .weight_decay = 0.1,
     .decoupled = true,
     .not_capturable = true},
    {.kind = OC_ADAMAX, .lr = 0.02, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
    {.kind = OC_ADAMAX,
     .lr = 0.02,
     .beta1 = 0.8,
     .beta2 = 0.95,
     .eps = 1e-3,
     .weight_decay = 0.1,
     .maximize = true,
     .not_capturable = true},
    {.kind = OC_ADADELTA, .lr = 1, .alpha = 0.9, .eps = 1e-6},
    {.kind = OC_ADADELTA,
     .lr = 0.5,
     .alpha = 0.8,
     .eps = 1e-3,
     .weight_decay = 0.1,
     .maximize = true,
     .not_capturable = true},
    {.kind = OC_ADAGRAD, .lr = 0.05, .eps = 1e-10},
    {.kind = OC_ADAGRAD,
     .lr = 0.05,
     .eps = 1e-3,
     .lr_decay = 0.1,
     .initial = 0.5,
     .weight_decay = 0.1,
     .maximize = true,
     .not_capturable = true},
    {.kind = OC_ASGD, .lr = 0.05, .lambd = 1e-4, .alpha = 0.75, .t0 = 1e6},
    {.kind = OC_ASGD,
     .lr = 0.05,
     .lambd = 0.01,
     .alpha = 0.5,
     .t0 = 3,
     .weight_decay = 0.1,
     .maximize = true},
    {.kind = OC_ASGD, .lr = 0.05, .lambd = 0.01, .alpha = 0.5, .t0 = 3, .not_capturable = true},
    {.kind = OC_RPROP, .lr = 0.01, .less = 0.5, .more = 1.2, .least = 1e-6, .most = 50},
    {.kind = OC_RPROP,
     .lr = 0.02,
     .less = 0.4,
     .more = 1.5,
     .least = 1e-3,
     .most = 0.03,
     .maximize = true,
     .not_capturable = true},
    {.kind = OC_LION, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99},
    {.kind = OC_LION,
     .lr = 0.01,
     .beta1 = 0.8,
     .beta2 = 0.95,
     .weight_decay = 0.2,
     .maximize = true},
};

size_t oc_kind_rule_count(void)
{
    return sizeof kind_rules / sizeof kind_rules[0];
}

oc_rule oc_kind_rule(size_t number)
{
    return kind_rules[number];
}
