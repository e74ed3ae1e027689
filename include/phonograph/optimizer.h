/* SPDX-License-Identifier: MIT */
/* phonograph/optimizer.h: the optimizers SGD, Adam and AdamW. A step is one launch, or a few, for
 * all parameters. */
#ifndef PHONOGRAPH_OPTIMIZER_H
#define PHONOGRAPH_OPTIMIZER_H
#include <phonograph/module.h>

PH_BEGIN_DECLS

typedef struct ph_optimizer ph_optimizer;

/* Options of SGD. All optimizers keep these rules:
 * - Meanings and formulas are torch.optim's.
 * - The number 0 is the default of a member whose comment names one. PH_ZERO is the number zero.
 * - The parameters are the module's tensors that require a gradient at creation, each once. The
 *   optimizer retains them. They are f32 or f64, and contiguous (ARGUMENT).
 * - A step skips a parameter that has no gradient, and does not count its step.
 * - Momenta are made by the first eager step in which the parameter has a gradient, outside of any
 *   graph's pool.
 * - create waits for the device's default stream. Only relaxed captures allow this (else CAPTURE,
 *   900).
 * - Threads: externally synchronised. */
typedef struct ph_sgd_options {
    double lr;
    double momentum, dampening, weight_decay;
    bool nesterov; /* needs a momentum and no dampening (ARGUMENT) */
    /* gradient ascent: each gradient is negated first; weight decay keeps its sign */
    bool maximize;
    uint64_t reserved[4];
} ph_sgd_options;
PH_CALL ph_sgd_create(ph_optimizer **out, ph_module *module, const ph_sgd_options *options);

typedef struct ph_adam_options {
    double lr;           /* 0: 1e-3 */
    double beta1, beta2; /* 0: 0.9, 0.999 */
    double eps;          /* 0: 1e-8 */
    /* Adam adds it to the gradient. AdamW decouples it; its default is 0.01, and PH_ZERO means
     * none */
    double weight_decay;
    /* keeps the step counters on the host; a step in a capture is then refused (STATE) before
     * anything is launched */
    bool not_capturable;
    bool maximize; /* as in ph_sgd_options */
    /* divides by the root of the largest second moment so far; needs one more state tensor for each
     * parameter */
    bool amsgrad;
    uint64_t reserved[4];
} ph_adam_options;
PH_CALL ph_adam_create(ph_optimizer **out, ph_module *module, const ph_adam_options *options);
PH_CALL ph_adamw_create(ph_optimizer **out, ph_module *module, const ph_adam_options *options);
/* Takes NULL. Graphs that captured a step keep what they need. */
PH_API void ph_optimizer_destroy(ph_optimizer *optimizer);

/* Changes the parameters, and counts up their versions.
 * - Launches: one for each 64 parameters, and one more where steps are counted.
 * - STATE, in a capture, before anything is launched: a parameter with a gradient has no momenta
 *   yet. SGD without momentum needs none. */
PH_API void ph_optimizer_step(ph_tape *tape, ph_optimizer *optimizer);
/* Releases the gradients. The next backward makes new ones, in a capture from the graph's pool. */
PH_API void ph_optimizer_zero_grad(ph_tape *tape, ph_optimizer *optimizer);

/* Sets the learning rate for later steps, and for later replays of graphs that captured a step. The
 * rate is a cell (cells.h), which the launch of each replay sets, so no new capture is needed.
 * Thread-safe. */
PH_CALL ph_optimizer_set_lr(ph_optimizer *optimizer, double lr);
PH_API double ph_optimizer_lr(const ph_optimizer *optimizer);
/* Divides the gradients of later steps by a scale of the user's, beside any scaler's.
 * - The value, an f32 scalar of the device, is copied in order of the tape's stream to memory of
 *   the optimizer's, which captured steps read.
 * - The first call makes that memory, and is refused in a capture (STATE).
 * - NULL: none, for steps that are submitted or captured from then on.
 * - ph_optimizer_step leaves the gradients as they are, ph_grad_scaler_step divides them. */
PH_API void ph_optimizer_set_grad_scale(ph_tape *tape, ph_optimizer *optimizer,
                                        ph_tensor *grad_scale);
/* Counts the steps in which a parameter had a gradient, replays included. Waits for the device;
 * refused in a capture (CAPTURE, 900). */
PH_CALL ph_optimizer_steps(uint64_t *out, ph_tape *tape, ph_optimizer *optimizer);

/* Saves and loads the state as safetensors. Both calls wait for the device.
 * - Names: "steps", and for a parameter "weight" the names "weight.momentum_buffer", or
 *   "weight.exp_avg", "weight.exp_avg_sq" and "weight.step", with amsgrad also
 *   "weight.max_exp_avg_sq".
 * - A momentum that is not made yet has the shape [0].
 * - The learning rate and the other options are not saved.
 * - load works as a strict ph_module_load, and writes into the memory that graphs address. A
 *   capture after it needs no eager step. */
PH_CALL ph_optimizer_save(ph_optimizer *optimizer, const char *path);
PH_CALL ph_optimizer_load(ph_optimizer *optimizer, const char *path);

PH_END_DECLS
#endif
