/* SPDX-License-Identifier: MIT */
/* phonograph/optimizer_kinds.h: optimizers beside SGD, Adam and AdamW. optimizer.h says what their
 * members have in common; options NULL is all defaults. */
#ifndef PHONOGRAPH_OPTIMIZER_KINDS_H
#define PHONOGRAPH_OPTIMIZER_KINDS_H
#include <phonograph/optimizer.h>

PH_BEGIN_DECLS

typedef struct ph_rmsprop_options {
    double lr;    /* 0: 1e-2 */
    double alpha; /* 0: 0.99; not negative */
    double eps;   /* 0: 1e-8 */
    double weight_decay, momentum;
    /* divides by the root of the variance, not of the second moment */
    bool centered;
    bool not_capturable, maximize;
    const ph_parameter_choice *parameters;
    const struct ph_rmsprop_options *groups;
    size_t group_count;
    uint64_t reserved[1];
} ph_rmsprop_options;
PH_CALL ph_rmsprop_create(ph_optimizer **out, ph_module *module, const ph_rmsprop_options *options);

typedef struct ph_nadam_options {
    double lr;           /* 0: 2e-3 */
    double beta1, beta2; /* 0: 0.9, 0.999 */
    double eps;          /* 0: 1e-8 */
    double weight_decay;
    double momentum_decay;       /* 0: 4e-3 */
    bool decoupled_weight_decay; /* as AdamW has it */
    bool not_capturable, maximize;
    const ph_parameter_choice *parameters;
    const struct ph_nadam_options *groups;
    size_t group_count;
    uint64_t reserved[1];
} ph_nadam_options;
PH_CALL ph_nadam_create(ph_optimizer **out, ph_module *module, const ph_nadam_options *options);

typedef struct ph_radam_options {
    double lr;           /* 0: 1e-3 */
    double beta1, beta2; /* 0: 0.9, 0.999 */
    double eps;          /* 0: 1e-8 */
    double weight_decay;
    bool decoupled_weight_decay; /* as AdamW has it */
    bool not_capturable, maximize;
    const ph_parameter_choice *parameters;
    const struct ph_radam_options *groups;
    size_t group_count;
    uint64_t reserved[1];
} ph_radam_options;
PH_CALL ph_radam_create(ph_optimizer **out, ph_module *module, const ph_radam_options *options);

typedef struct ph_adamax_options {
    double lr;           /* 0: 2e-3 */
    double beta1, beta2; /* 0: 0.9, 0.999 */
    double eps;          /* 0: 1e-8 */
    double weight_decay;
    bool not_capturable, maximize;
    const ph_parameter_choice *parameters;
    const struct ph_adamax_options *groups;
    size_t group_count;
    uint64_t reserved[1];
} ph_adamax_options;
PH_CALL ph_adamax_create(ph_optimizer **out, ph_module *module, const ph_adamax_options *options);

typedef struct ph_adadelta_options {
    double lr;  /* 0: 1 */
    double rho; /* 0: 0.9; at most 1 */
    double eps; /* 0: 1e-6 */
    double weight_decay;
    bool not_capturable, maximize;
    const ph_parameter_choice *parameters;
    const struct ph_adadelta_options *groups;
    size_t group_count;
    uint64_t reserved[1];
} ph_adadelta_options;
PH_CALL ph_adadelta_create(ph_optimizer **out, ph_module *module,
                           const ph_adadelta_options *options);

typedef struct ph_adagrad_options {
    double lr; /* 0: 1e-2 */
    double lr_decay, weight_decay;
    double initial_accumulator_value;
    double eps; /* 0: 1e-10 */
    bool not_capturable, maximize;
    const ph_parameter_choice *parameters;
    const struct ph_adagrad_options *groups;
    size_t group_count;
    uint64_t reserved[1];
} ph_adagrad_options;
PH_CALL ph_adagrad_create(ph_optimizer **out, ph_module *module, const ph_adagrad_options *options);

/* A step takes the rate that the step before it has left (eta): a new learning rate holds from the
 * next but one on. The averages are state ("ax" in files); parameters are not replaced by them. */
typedef struct ph_asgd_options {
    double lr;    /* 0: 1e-2 */
    double lambd; /* 0: 1e-4 */
    double alpha; /* 0: 0.75 */
    double t0;    /* 0: 1e6 */
    double weight_decay;
    bool not_capturable, maximize;
    const ph_parameter_choice *parameters;
    const struct ph_asgd_options *groups;
    size_t group_count;
    uint64_t reserved[1];
} ph_asgd_options;
PH_CALL ph_asgd_create(ph_optimizer **out, ph_module *module, const ph_asgd_options *options);

/* The learning rate is each element's first step size; later rates change nothing. A NaN gradient
 * changes nothing. */
typedef struct ph_rprop_options {
    double lr;                  /* 0: 1e-2 */
    double eta_minus, eta_plus; /* 0: 0.5, 1.2; below and above 1 */
    double step_min, step_max;  /* 0: 1e-6, 50 */
    bool not_capturable, maximize;
    const ph_parameter_choice *parameters;
    const struct ph_rprop_options *groups;
    size_t group_count;
    uint64_t reserved[1];
} ph_rprop_options;
PH_CALL ph_rprop_create(ph_optimizer **out, ph_module *module, const ph_rprop_options *options);

/* Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, algorithm 2. It counts no
 * steps. */
typedef struct ph_lion_options {
    double lr;           /* 0: 1e-4 */
    double beta1, beta2; /* 0: 0.9, 0.99 */
    double weight_decay; /* decoupled */
    bool maximize;
    const ph_parameter_choice *parameters;
    const struct ph_lion_options *groups;
    size_t group_count;
    uint64_t reserved[1];
} ph_lion_options;
PH_CALL ph_lion_create(ph_optimizer **out, ph_module *module, const ph_lion_options *options);

PH_END_DECLS
#endif
