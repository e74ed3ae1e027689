/* SPDX-License-Identifier: MIT */
/* phonograph/optimizer.h: the optimizers SGD, Adam and AdamW, and groups of parameters. A step is
 * one launch, or a few, for all parameters of a group. */
#ifndef PHONOGRAPH_OPTIMIZER_H
#define PHONOGRAPH_OPTIMIZER_H
#include <phonograph/module.h>

PH_BEGIN_DECLS

typedef struct ph_optimizer ph_optimizer;

/* Names the parameters of a group, by name, by number or by both. create copies it. */
typedef struct ph_parameter_choice {
    const char *const *names; /* as in ph_optimizer_parameter_name; * stands for any characters */
    size_t name_count;
    const size_t *indices; /* numbers of ph_optimizer_parameter_name */
    size_t index_count;
} ph_parameter_choice;

/* Options of SGD. All optimizers keep these rules:
 * - Meanings and formulas are torch.optim's.
 * - The number 0 is the default of a member whose comment names one. PH_ZERO is the number zero.
 * - The parameters are the module's tensors that require a gradient at creation, each once. The
 *   optimizer retains them. They are f32 or f64, and contiguous (ARGUMENT).
 * - A step skips a parameter that has no gradient, and does not count its step.
 * - State is made by the first eager step in which the parameter has a gradient, outside of any
 *   graph's pool.
 * - create waits for the device's default stream. Only relaxed captures allow this (else CAPTURE,
 *   900).
 * - Groups have options of their own. A number that is 0 in a group, and a flag that is not set
 *   there, is that of the options around the groups.
 * - A parameter belongs to the first group that names it. A group without a choice is refused, and
 *   so is a name, pattern or number that adds no parameter (ARGUMENT).
 * - Threads: externally synchronised. */
typedef struct ph_sgd_options {
    double lr;
    double momentum, dampening, weight_decay;
    bool nesterov; /* needs a momentum and no dampening (ARGUMENT) */
    /* gradient ascent: each gradient is negated first; weight decay keeps its sign */
    bool maximize;
    const ph_parameter_choice *parameters; /* of a group; else NULL */
    const struct ph_sgd_options *groups;
    size_t group_count;
    uint64_t reserved[1];
} ph_sgd_options;
PH_CALL ph_sgd_create(ph_optimizer **out, ph_module *module, const ph_sgd_options *options);

/* Options of Adam and AdamW. NULL is all defaults, as for the optimizers of optimizer_kinds.h. */
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
    bool maximize; /* as in ph_sgd_options, like the members without a comment */
    /* divides by the root of the largest second moment so far; needs one more state tensor for each
     * parameter */
    bool amsgrad;
    const ph_parameter_choice *parameters;
    const struct ph_adam_options *groups;
    size_t group_count;
    uint64_t reserved[1];
} ph_adam_options;
PH_CALL ph_adam_create(ph_optimizer **out, ph_module *module, const ph_adam_options *options);
PH_CALL ph_adamw_create(ph_optimizer **out, ph_module *module, const ph_adam_options *options);
/* Takes NULL. Graphs that captured a step keep what they need. */
PH_API void ph_optimizer_destroy(ph_optimizer *optimizer);

/* Changes the parameters, and counts up their versions.
 * - Launches: one for each 64 parameters of a group and dtype, and one more for each group whose
 *   update depends on the number of steps.
 * - A step that fails has counted only the parameters that it has changed.
 * - STATE, in a capture, before anything is launched: a parameter with a gradient has no state
 *   yet, or a group counts on the host. SGD without momentum needs no state. */
PH_API void ph_optimizer_step(ph_tape *tape, ph_optimizer *optimizer);
/* Releases the gradients. The next backward makes new ones, in a capture from the graph's pool. */
PH_API void ph_optimizer_zero_grad(ph_tape *tape, ph_optimizer *optimizer);
/* Fills the gradients with zeros in their memory, on the tape's stream (set_to_none=False of
 * PyTorch). The next backward adds to them, and a step takes them as gradients. Legal in a
 * capture. STATE, before anything is filled: a gradient is expanded, or read-only. */
PH_API void ph_optimizer_zero_grad_in_place(ph_tape *tape, ph_optimizer *optimizer);

/* Sets the learning rate of all groups, for later steps and for later replays of graphs that
 * captured a step. The rate is a cell (cells.h), which the launch of each replay sets, so no new
 * capture is needed. Thread-safe. lr: that of the last group. */
PH_CALL ph_optimizer_set_lr(ph_optimizer *optimizer, double lr);
PH_API double ph_optimizer_lr(const ph_optimizer *optimizer);
/* Groups have the numbers of their places in the options. The last one, always there, has the
 * parameters that no group names. ARGUMENT: no such group; ph_optimizer_group_lr gives 0 then.
 * Thread-safe. */
PH_API size_t ph_optimizer_group_count(const ph_optimizer *optimizer);
PH_CALL ph_optimizer_group_set_lr(ph_optimizer *optimizer, size_t group, double lr);
PH_API double ph_optimizer_group_lr(const ph_optimizer *optimizer, size_t group);
/* Gives the parameters in the module's order: their names, which belong to the optimizer, and
 * their groups. Past the end: NULL, SIZE_MAX. Thread-safe. */
PH_API size_t ph_optimizer_parameter_count(const ph_optimizer *optimizer);
PH_API const char *ph_optimizer_parameter_name(const ph_optimizer *optimizer, size_t index);
PH_API size_t ph_optimizer_parameter_group(const ph_optimizer *optimizer, size_t index);
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
 * - Names: "steps", and PyTorch's names behind the parameter's: of Adam "weight.exp_avg",
 *   "weight.exp_avg_sq" and "weight.step", say. docs/reference/modules.md lists them.
 * - State that is not made yet has the shape [0].
 * - Learning rates, groups and the other options are not saved.
 * - load works as a strict ph_module_load, and writes into the memory that graphs address. A
 *   capture after it needs no eager step where the saved optimizer needed none. */
PH_CALL ph_optimizer_save(ph_optimizer *optimizer, const char *path);
PH_CALL ph_optimizer_load(ph_optimizer *optimizer, const char *path);

PH_END_DECLS
#endif
