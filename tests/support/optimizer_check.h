/* SPDX-License-Identifier: MIT */
/* tests/support/optimizer_check.h: a module of loose parameters with random gradients, and what
 * a float64 reference of each optimizer makes of them. */
#ifndef PH_TESTS_OPTIMIZER_CHECK_H
#define PH_TESTS_OPTIMIZER_CHECK_H
#include "base/rng.h"
#include "support/optimizer_rules.h"
#include "support/tensors.h"

enum {
    OC_MOST = 200
};
typedef struct oc_param {
    ph_tensor *tensor;      /* "p0", "p1", ... */
    double *at, *m, *v, *g; /* the reference */
    double *largest;        /* of v, with amsgrad; RMSprop: the mean gradient */
    int64_t count;
    oc_counter own;
    void *memory; /* of a tensor that lies 8 bytes behind an address of 16 */
} oc_param;
typedef struct oc_problem {
    t_scene scene;
    ph_dtype dtype;
    ph_module *module;
    size_t count;
    oc_param param[OC_MOST];
    ph__rng rng;
} oc_problem;

/* On a stream of its own. shapes NULL: a mixture of 8, one of them empty, one not aligned. The
 * same values for the same seed. */
void oc_open(oc_problem *p, ph_dtype dtype, const ph_shape *shapes, size_t count, uint64_t seed);
void oc_close(oc_problem *p); /* nothing may be left on the device */
double oc_uniform(oc_problem *p);

/* New gradients for those with their bit set; the others get none. A gradient that is there is
 * written in place. */
void oc_gradients(oc_problem *p, uint64_t mask);
/* The same, but some of the gradients are not contiguous. */
void oc_strided_gradients(oc_problem *p);
/* What a step makes of the parameters that have a gradient. */
void oc_reference(oc_problem *p, const oc_rule *rule);
/* The same of those with their bit set. */
void oc_reference_some(oc_problem *p, const oc_rule *rule, uint64_t mask);
/* |got - want| <= bound * (1 + |want|) for all parameters. what: for the message. */
void oc_compare(oc_problem *p, double bound, const char *what);

/* The bits of all parameters, one behind the other; freed by the caller. */
unsigned char *oc_bits(oc_problem *p, size_t *bytes);
/* Fails unless the two problems' parameters are the same bits. */
void oc_equal(oc_problem *a, oc_problem *b, const char *what);

/* step, and the tape's status, cleared. */
ph_status oc_step(oc_problem *p, ph_optimizer *optimizer);
/* Captures one step. */
typedef struct oc_capture {
    oc_problem *problem;
    ph_optimizer *optimizer;
} oc_capture;
ph_status oc_capture_body(ph_stream *stream, void *capture);
ph_graph *oc_capture_step(oc_problem *p, ph_optimizer *optimizer);
#endif
