/* SPDX-License-Identifier: MIT */
/* tests/support/optimizer_rules.h: optimizers with all their numbers, and a float64 reference of
 * each, from its published formula. */
#ifndef PH_TESTS_OPTIMIZER_RULES_H
#define PH_TESTS_OPTIMIZER_RULES_H
#include "support/tensors.h"

typedef enum oc_kind {
    OC_SGD,
    OC_ADAM,
    OC_ADAMW,
    OC_RMSPROP,
    OC_NADAM,
    OC_RADAM,
    OC_ADAMAX,
    OC_ADADELTA,
    OC_ADAGRAD,
    OC_ASGD,
    OC_RPROP,
    OC_LION,
    OC_KINDS
} oc_kind;
/* Which optimizer, with all its numbers as they are: no defaults. */
typedef struct oc_rule {
    oc_kind kind;
    double lr, momentum, dampening, weight_decay, beta1, beta2, eps;
    double alpha; /* RMSprop, ASGD; Adadelta's rho */
    double momentum_decay, lr_decay, initial, lambd, t0;
    double less, more, least, most; /* Rprop's etas and step sizes */
    bool nesterov, not_capturable, maximize, amsgrad, centered, decoupled;
    /* NULL: no groups; else the parameters of this name are one, which counts on the host where it
     * says so (kinds that count) */
    const char *group;
    bool group_on_host;
} oc_rule;
void oc_describe(char text[200], const oc_rule *rule);
ph_optimizer *oc_create(const oc_rule *rule, ph_module *module);
/* Adam's and AdamW's options in all combinations: a bit of number for each; and the dtype to run
 * it in, and the bound that a step's result keeps. */
enum {
    OC_ADAM_RULES = 128,
    OC_ADAM_ON_HOST = 8 /* the bit of not_capturable */
};
oc_rule oc_adam_rule(unsigned number);
ph_dtype oc_adam_dtype(unsigned number);
double oc_adam_bound(ph_dtype dtype);
/* Rules of the other kinds: two or more of each, their options in different combinations. */
size_t oc_kind_rule_count(void);
oc_rule oc_kind_rule(size_t number);

/* ---- the reference ---- */
/* Beside the elements of a parameter. */
typedef struct oc_counter {
    double steps, product, eta, mu;
} oc_counter;
/* at: the parameter; m, v, w: what the kind keeps. */
typedef struct oc_element {
    double at, m, v, w;
} oc_element;
/* A step: begin, each element, end. v: of all elements, whose first contents begin writes. */
void oc_begin(const oc_rule *rule, oc_counter *counter, double *v, int64_t count);
void oc_update(const oc_rule *rule, const oc_counter *counter, oc_element *element, double grad);
void oc_end(const oc_rule *rule, oc_counter *counter);
#endif
