/* SPDX-License-Identifier: MIT */
/* oracle/oracle_optimizers.c: steps of the optimizers with given gradients. */
#include "base/rng.h"
#include "oracle.h"
#include <stdio.h>

enum {
    STEPS = 5,
    PARAMETERS = 2
};

/* One of the two is a rule's: sgd where its lr is not 0. */
typedef struct rule {
    const char *name;
    ph_sgd_options sgd;
    ph_adam_options adam;
    bool decoupled; /* AdamW */
} rule;

static const rule rules[] = {
    {.name = "sgd", .sgd = {.lr = 0.1}},
    {.name = "sgd_decay", .sgd = {.lr = 0.1, .weight_decay = 0.05}},
    {.name = "sgd_momentum", .sgd = {.lr = 0.1, .momentum = 0.9}},
    {.name = "sgd_dampening",
     .sgd = {.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.05}},
    {.name = "sgd_nesterov", .sgd = {.lr = 0.1, .momentum = 0.9, .nesterov = true}},
    {.name = "sgd_nesterov_decay",
     .sgd = {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05, .nesterov = true}},
    {.name = "sgd_maximize", .sgd = {.lr = 0.1, .weight_decay = 0.05, .maximize = true}},
    {.name = "sgd_maximize_momentum",
     .sgd = {.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.05, .maximize = true}},
    {.name = "sgd_maximize_nesterov",
     .sgd = {.lr = 0.1, .momentum = 0.9, .nesterov = true, .maximize = true}},
    {.name = "adam", .adam = {.lr = 0}},
    {.name = "adam_decay", .adam = {.lr = 0.02, .weight_decay = 0.05}},
    {.name = "adam_betas", .adam = {.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3}},
    {.name = "adam_maximize", .adam = {.lr = 0.02, .weight_decay = 0.05, .maximize = true}},
    {.name = "adam_amsgrad", .adam = {.lr = 0.02, .beta2 = 0.5, .amsgrad = true}},
    {.name = "adam_maximize_amsgrad",
     .adam = {.lr = 0.02, .beta2 = 0.5, .weight_decay = 0.05, .maximize = true, .amsgrad = true}},
    {.name = "adamw", .adam = {.lr = 0}, .decoupled = true},
    {.name = "adamw_decay", .adam = {.lr = 0.02, .weight_decay = 0.2}, .decoupled = true},
    {.name = "adamw_no_decay", .adam = {.lr = 0.02, .weight_decay = PH_ZERO}, .decoupled = true},
    {.name = "adamw_maximize",
     .adam = {.lr = 0.02, .weight_decay = 0.2, .maximize = true},
     .decoupled = true},
    {.name = "adamw_amsgrad",
     .adam = {.lr = 0.02, .beta2 = 0.5, .amsgrad = true},
     .decoupled = true},
    {.name = "adamw_maximize_amsgrad",
     .adam = {.lr = 0.02, .beta2 = 0.5, .weight_decay = 0.2, .maximize = true, .amsgrad = true},
     .decoupled = true},
};

static ph_optimizer *create(const rule *r, ph_module *module)
{
    ph_optimizer *optimizer = NULL;
    ph_status status = r->sgd.lr != 0 ? ph_sgd_create(&optimizer, module, &r->sgd)
                       : r->decoupled ? ph_adamw_create(&optimizer, module, &r->adam)
                                      : ph_adam_create(&optimizer, module, &r->adam);
    oracle_check(status, r->name);
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
