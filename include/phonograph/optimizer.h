/* SPDX-License-Identifier: MIT */
/* phonograph/optimizer.h: optimizers: SGD, Adam, AdamW; one launch (or a few) for all
 * parameters. */
#ifndef PHONOGRAPH_OPTIMIZER_H
#define PHONOGRAPH_OPTIMIZER_H
#include <phonograph/module.h>

PH_BEGIN_DECLS

typedef struct ph_optimizer ph_optimizer;

/* torch.optim's meanings and formulas: 0 is the default of members that a comment gives one,
 * PH_ZERO the number zero. Parameters are those of the module that require a gradient at
 * creation, each once; retained; f32 or f64, contiguous (ARGUMENT). A parameter without a
 * gradient is passed over, and counts no step; its momenta are made by the first eager step in
 * which it has one, outside of any graph's pool. create waits for the device's default stream,
 * which only relaxed captures allow (else CAPTURE, 900). Externally synchronised. */
typedef struct ph_sgd_options {
    double lr;
    double momentum, dampening, weight_decay;
    bool nesterov; /* with a momentum, and without dampening (ARGUMENT) */
    /* the parameters go up their gradients: these are negated before all else, weight decay is
     * not */
    bool maximize;
    uint64_t reserved[4];
} ph_sgd_options;
PH_CALL ph_sgd_create(ph_optimizer **out, ph_module *module, const ph_sgd_options *options);

typedef struct ph_adam_options {
    double lr;           /* 0: 1e-3 */
    double beta1, beta2; /* 0: 0.9, 0.999 */
    double eps;          /* 0: 1e-8 */
    /* Adam: added to the gradient; AdamW: decoupled, its default (0) is 0.01, PH_ZERO none */
    double weight_decay;
    /* step counters on the host: a step in a capture is refused (STATE) before anything is
     * launched */
    bool not_capturable;
    bool maximize; /* as ph_sgd_options has it */
    /* divides by the root of each second moment's largest value so far: one more tensor of state
     * for each parameter */
    bool amsgrad;
    uint64_t reserved[4];
} ph_adam_options;
PH_CALL ph_adam_create(ph_optimizer **out, ph_module *module, const ph_adam_options *options);
PH_CALL ph_adamw_create(ph_optimizer **out, ph_module *module, const ph_adam_options *options);
/* takes NULL; graphs that captured its step keep what they need */
PH_API void ph_optimizer_destroy(ph_optimizer *optimizer);

/* Changes the parameters (their versions count up), in one launch for each 64 of them, and one
 * more where steps are counted. In a capture: STATE, before anything is launched, when a
 * parameter that has a gradient has no momenta yet (SGD without momentum needs none). */
PH_API void ph_optimizer_step(ph_tape *tape, ph_optimizer *optimizer);
/* Releases the gradients: the next backward makes them anew (in a capture from the graph's
 * pool). */
PH_API void ph_optimizer_zero_grad(ph_tape *tape, ph_optimizer *optimizer);

/* The learning rate: steps take it from then on; so do replays of graphs that captured one: it
 * is a cell (cells.h) that each replay's launch sets, and no new capture is needed. Thread-safe. */
PH_CALL ph_optimizer_set_lr(ph_optimizer *optimizer, double lr);
PH_API double ph_optimizer_lr(const ph_optimizer *optimizer);
/* Steps made in which a parameter had a gradient, replays included; waits for the device
 * (refused in a capture, CAPTURE 900). */
PH_CALL ph_optimizer_steps(uint64_t *out, ph_tape *tape, ph_optimizer *optimizer);

/* The state as safetensors: "steps", and by the parameters' names "weight.momentum_buffer", or
 * "weight.exp_avg", "weight.exp_avg_sq", with amsgrad "weight.max_exp_avg_sq", and
 * "weight.step"; a momentum that is not made yet has shape [0]. The learning rate and the other
 * options are not in it. load: as ph_module_load does, strictly, and into the memory that graphs
 * address; a capture needs no eager step then. Both wait for the device. */
PH_CALL ph_optimizer_save(ph_optimizer *optimizer, const char *path);
PH_CALL ph_optimizer_load(ph_optimizer *optimizer, const char *path);

PH_END_DECLS
#endif
