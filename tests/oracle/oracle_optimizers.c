/* SPDX-License-Identifier: MIT */
/* oracle/oracle_optimizers.c: steps of the optimizers with given gradients. */
#include "base/rng.h"
#include "oracle.h"
#include <stdio.h>

enum {
    STEPS = 50,
    PARAMETERS = 2
};

#define MAKER(kind)                                                                                \
    static ph_status make_##kind(ph_optimizer **out, ph_module *module, const void *options)       \
    {                                                                                              \
        return ph_##kind##_create(out, module, options);                                           \
    }
MAKER(sgd)
MAKER(adam)
MAKER(adamw)
MAKER(rmsprop)
MAKER(nadam)
MAKER(radam)
MAKER(adamax)
MAKER(adadelta)
MAKER(adagrad)
MAKER(asgd)
MAKER(rprop)
MAKER(lion)

typedef struct rule {
    const char *name;
    ph_status (*make)(ph_optimizer **out, ph_module *module, const void *options);
    const void *options;
} rule;
#define RULE(name, kind, type, ...)                                                                \
    {                                                                                              \
        name, make_##kind, &(const type)                                                           \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static const ph_parameter_choice second = {.names = (const char *const[]){"second"},
                                           .name_count = 1};
static const rule rules[] = {
    RULE("sgd", sgd, ph_sgd_options, .lr = 0.1),
    RULE("sgd_decay", sgd, ph_sgd_options, .lr = 0.1, .weight_decay = 0.05),
    RULE("sgd_momentum", sgd, ph_sgd_options, .lr = 0.1, .momentum = 0.9),
    RULE("sgd_dampening", sgd, ph_sgd_options, .lr = 0.1, .momentum = 0.9, .dampening = 0.3,
         .weight_decay = 0.05),
    RULE("sgd_nesterov", sgd, ph_sgd_options, .lr = 0.1, .momentum = 0.9, .nesterov = true),
    RULE("sgd_nesterov_decay", sgd, ph_sgd_options, .lr = 0.1, .momentum = 0.9,
         .weight_decay = 0.05, .nesterov = true),
    RULE("sgd_maximize", sgd, ph_sgd_options, .lr = 0.1, .weight_decay = 0.05, .maximize = true),
    RULE("sgd_maximize_momentum", sgd, ph_sgd_options, .lr = 0.1, .momentum = 0.9, .dampening = 0.3,
         .weight_decay = 0.05, .maximize = true),
    RULE("sgd_maximize_nesterov", sgd, ph_sgd_options, .lr = 0.1, .momentum = 0.9, .nesterov = true,
         .maximize = true),
    RULE("adam", adam, ph_adam_options, .lr = 0),
    RULE("adam_decay", adam, ph_adam_options, .lr = 0.02, .weight_decay = 0.05),
    RULE("adam_betas", adam, ph_adam_options, .lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3),
    RULE("adam_maximize", adam, ph_adam_options, .lr = 0.02, .weight_decay = 0.05,
         .maximize = true),
    RULE("adam_amsgrad", adam, ph_adam_options, .lr = 0.02, .beta2 = 0.5, .amsgrad = true),
    RULE("adam_maximize_amsgrad", adam, ph_adam_options, .lr = 0.02, .beta2 = 0.5,
         .weight_decay = 0.05, .maximize = true, .amsgrad = true),
    RULE("adamw", adamw, ph_adam_options, .lr = 0),
    RULE("adamw_decay", adamw, ph_adam_options, .lr = 0.02, .weight_decay = 0.2),
    RULE("adamw_no_decay", adamw, ph_adam_options, .lr = 0.02, .weight_decay = PH_ZERO),
    RULE("adamw_maximize", adamw, ph_adam_options, .lr = 0.02, .weight_decay = 0.2,
         .maximize = true),
    RULE("adamw_amsgrad", adamw, ph_adam_options, .lr = 0.02, .beta2 = 0.5, .amsgrad = true),
    RULE("adamw_maximize_amsgrad", adamw, ph_adam_options, .lr = 0.02, .beta2 = 0.5,
         .weight_decay = 0.2, .maximize = true, .amsgrad = true),
    RULE("rmsprop", rmsprop, ph_rmsprop_options, .lr = 0),
    RULE("rmsprop_momentum", rmsprop, ph_rmsprop_options, .lr = 0.02, .momentum = 0.9),
    RULE("rmsprop_centered", rmsprop, ph_rmsprop_options, .lr = 0.02, .centered = true,
         .eps = 1e-3),
    RULE("rmsprop_decay", rmsprop, ph_rmsprop_options, .lr = 0.02, .alpha = 0.9, .eps = 1e-3,
         .weight_decay = 0.05),
    RULE("rmsprop_all", rmsprop, ph_rmsprop_options, .lr = 0.02, .alpha = 0.9, .eps = 1e-3,
         .weight_decay = 0.05, .momentum = 0.9, .centered = true, .maximize = true),
    RULE("nadam", nadam, ph_nadam_options, .lr = 0),
    RULE("nadam_decay", nadam, ph_nadam_options, .lr = 0.02, .weight_decay = 0.05,
         .momentum_decay = 6e-3),
    RULE("nadam_decoupled", nadam, ph_nadam_options, .lr = 0.02, .weight_decay = 0.2,
         .decoupled_weight_decay = true),
    RULE("nadam_betas", nadam, ph_nadam_options, .lr = 0.02, .beta1 = 0.8, .beta2 = 0.95,
         .eps = 1e-3, .momentum_decay = PH_ZERO, .maximize = true),
    RULE("radam", radam, ph_radam_options, .lr = 0),
    RULE("radam_decay", radam, ph_radam_options, .lr = 0.02, .weight_decay = 0.05),
    RULE("radam_decoupled", radam, ph_radam_options, .lr = 0.02, .weight_decay = 0.2,
         .decoupled_weight_decay = true),
    RULE("radam_betas", radam, ph_radam_options, .lr = 0.02, .beta1 = 0.8, .beta2 = 0.95,
         .eps = 1e-3, .maximize = true),
    RULE("adamax", adamax, ph_adamax_options, .lr = 0),
    RULE("adamax_decay", adamax, ph_adamax_options, .lr = 0.02, .weight_decay = 0.05),
    RULE("adamax_betas", adamax, ph_adamax_options, .lr = 0.02, .beta1 = 0.8, .beta2 = 0.95,
         .eps = 1e-3, .weight_decay = 0.05, .maximize = true),
    RULE("adadelta", adadelta, ph_adadelta_options, .lr = 0),
    RULE("adadelta_decay", adadelta, ph_adadelta_options, .lr = 0.5, .weight_decay = 0.05),
    RULE("adadelta_all", adadelta, ph_adadelta_options, .lr = 0.5, .rho = 0.8, .eps = 1e-3,
         .weight_decay = 0.05, .maximize = true),
    RULE("adagrad", adagrad, ph_adagrad_options, .lr = 0),
    RULE("adagrad_decay", adagrad, ph_adagrad_options, .lr = 0.1, .lr_decay = 0.1,
         .weight_decay = 0.05),
    RULE("adagrad_all", adagrad, ph_adagrad_options, .lr = 0.1, .lr_decay = 0.1,
         .weight_decay = 0.05, .initial_accumulator_value = 0.5, .eps = 1e-3, .maximize = true),
    RULE("asgd", asgd, ph_asgd_options, .lr = 0),
    RULE("asgd_averaging", asgd, ph_asgd_options, .lr = 0.1, .t0 = 10),
    RULE("asgd_all", asgd, ph_asgd_options, .lr = 0.1, .lambd = 0.01, .alpha = 0.5, .t0 = 5,
         .weight_decay = 0.05, .maximize = true),
    RULE("rprop", rprop, ph_rprop_options, .lr = 0),
    RULE("rprop_etas", rprop, ph_rprop_options, .lr = 0.02, .eta_minus = 0.4, .eta_plus = 1.5,
         .step_min = 1e-3, .step_max = 0.1),
    RULE("rprop_maximize", rprop, ph_rprop_options, .lr = 0.02, .maximize = true),
    RULE("lion", lion, ph_lion_options, .lr = 0),
    RULE("lion_decay", lion, ph_lion_options, .lr = 0.01, .weight_decay = 0.2),
    RULE("lion_betas", lion, ph_lion_options, .lr = 0.01, .beta1 = 0.8, .beta2 = 0.95,
         .weight_decay = 0.2, .maximize = true),
    RULE("adam_groups", adam, ph_adam_options, .lr = 0.02, .weight_decay = 0.05,
         .groups = (const ph_adam_options[]){{.lr = 0.1, .amsgrad = true, .parameters = &second}},
         .group_count = 1),
    RULE("rmsprop_groups", rmsprop, ph_rmsprop_options, .lr = 0.02, .alpha = 0.9,
         .groups =
             (const ph_rmsprop_options[]){
                 {.momentum = 0.9, .centered = true, .eps = 1e-3, .parameters = &second}},
         .group_count = 1),
    RULE("sgd_groups", sgd, ph_sgd_options, .lr = 0.1,
         .groups =
             (const ph_sgd_options[]){{.momentum = 0.9, .nesterov = true, .parameters = &second}},
         .group_count = 1),
};

static ph_optimizer *create(const rule *r, ph_module *module)
{
    ph_optimizer *optimizer = NULL;
    oracle_check(r->make(&optimizer, module, r->options), r->name);
    return optimizer;
}

static void no_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)tape;
    (void)self;
    out[0] = in[0];
}

/* Writes in0 and in1, the parameters before the first step; after each step the next two of
 * step0.. and of out0..: its gradients, and what it made of the parameters. */
static void run_rule(ph_tape *tape, const rule *r, ph_dtype dtype)
{
    static const oracle_input shapes[PARAMETERS] = {S(33, 7), S(129)};
    static const char *const names[PARAMETERS] = {"first", "second"};
    char name[48];
    ph__rng rng = {dtype};
    ph_tensor *at[PARAMETERS];
    ph_parameter parameters[PARAMETERS];
    ph_module *module;
    snprintf(name, sizeof name, "optimizer/%s", r->name);
    ph_tape_set_grad_enabled(tape, false);
    for (size_t i = 0; i < PARAMETERS; i++) {
        at[i] = oracle_values(tape, &rng, dtype, &shapes[i]);
        oracle_keep(name, dtype, "in", i, ph_clone(tape, at[i]));
        parameters[i] = (ph_parameter){names[i], &at[i]};
    }
    ph_module_desc desc = {.name = "parameters",
                           .forward = no_forward,
                           .parameters = parameters,
                           .parameter_count = PARAMETERS};
    oracle_check(ph_module_create(&module, ph_tensor_device(at[0]), &desc), name);
    ph_optimizer *optimizer = create(r, module);
    for (size_t step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < PARAMETERS; i++) {
            ph_tensor *grad = oracle_values(tape, &rng, dtype, &shapes[i]);
            oracle_check(ph_tensor_set_grad(at[i], grad), name);
            oracle_keep(name, dtype, "step", step * PARAMETERS + i, grad);
        }
        ph_optimizer_step(tape, optimizer);
        for (size_t i = 0; i < PARAMETERS; i++)
            oracle_keep(name, dtype, "out", step * PARAMETERS + i, ph_clone(tape, at[i]));
    }
    ph_optimizer_destroy(optimizer);
    ph_module_release(module);
    ph_tape_set_grad_enabled(tape, true);
    oracle_check(ph_tape_clear(tape), name);
}

size_t oracle_run_optimizers(ph_tape *tape)
{
    size_t count = sizeof rules / sizeof rules[0];
    for (size_t i = 0; i < count; i++) {
        run_rule(tape, &rules[i], PH_DTYPE_F32);
        run_rule(tape, &rules[i], PH_DTYPE_F64);
    }
    return 2 * count;
}
