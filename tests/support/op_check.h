/* SPDX-License-Identifier: MIT */
/* tests/support/op_check.h: holds an operator to what every operator promises: over random
 * shapes, strides and dtypes,
 *  - results within a bound of a float64 reference, and gradients of central differences of that
 *    reference: in every element of a small input, in some of a large one;
 *  - eager, captured and replayed results and gradients equal to the bit;
 *  - poisoned outputs, guard zones around all memory. */
#ifndef PH_TESTS_OP_CHECK_H
#define PH_TESTS_OP_CHECK_H
#include "base/rng.h"
#include "support/support.h"
#include <phonograph/nn.h>

enum {
    OP_MAX_INPUTS = 8,
    OP_MAX_OUTPUTS = 8,
    OP_DTYPES = 9
};

/* Doubles, contiguous. */
typedef struct op_array {
    ph_shape shape;
    int64_t count;
    double *at;
} op_array;
void op_array_make(op_array *out, const ph_shape *shape); /* zeroed; freed by the check */
/* Walks an index over a shape: false once it wraps around to all zeros. */
bool op_next(int64_t index[PH_MAX_RANK], const ph_shape *shape);
/* The place of an index in an array whose shape broadcasts to the index's (of `rank`
 * dimensions). */
int64_t op_at(const op_array *a, const int64_t index[PH_MAX_RANK], size_t rank);

typedef struct op_input {
    ph_dtype dtype;   /* 0: the one under test */
    bool no_gradient; /* floating, but its gradient is not looked at */
    double low, high; /* uniform in [low, high); both 0: -2 to 2. Integers too */
    double gap;       /* values nearer to 0 than this are moved away from it */
    bool distinct;    /* no two values closer than some 1e-2: for max and the like */
    bool contiguous;  /* no strides */
} op_input;

typedef struct op_spec op_spec;
typedef struct op_trial {
    const op_spec *spec;
    size_t index; /* of the trial */
    ph__rng rng;
    ph_dtype dtype;
    ph_shape shape[OP_MAX_INPUTS];
    /* as in the spec, unless shapes() changed them: index ranges, say */
    double low[OP_MAX_INPUTS], high[OP_MAX_INPUTS];
    /* what shapes() wants to tell apply and reference */
    int64_t p[8];
    double f[8];
} op_trial;

struct op_spec {
    const char *name;
    size_t in_count, out_count; /* out_count 0: 1 */
    op_input in[OP_MAX_INPUTS];
    ph_dtype dtypes[OP_DTYPES];      /* 0-terminated; none: f32, f64, f16, bf16 */
    size_t trials;                   /* 0: 12 */
    void (*shapes)(op_trial *trial); /* sets shape[], and p, f, low, high if it likes */
    /* May change the values of input i, which are then rounded to its dtype. NULL: they stay as
     * they were drawn. */
    void (*adjust)(op_array *a, size_t i, const op_trial *trial);
    void (*apply)(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, const op_trial *trial);
    void (*reference)(op_array *out, const op_array *in, const op_trial *trial);
    /* |got - want| <= bound * (1 + |want|), by dtype; 0: f32 2e-6, f64 1e-14, f16 2e-3, bf16
     * 1.6e-2; other dtypes exactly. Gradients: gradient_bound, or 4 times that (f32: at least
     * 1e-5; f64: at least 2e-6, which is what the differences give). */
    double bound[OP_DTYPES], gradient_bound[OP_DTYPES];
    bool no_gradient; /* none is asked for */
};
/* Fails the test with the operator, dtype, shapes and place at the first difference. The same
 * trials on every device. */
void op_check(ph_device *device, const op_spec *spec);

/* ---- for shapes() ---- */
int64_t op_random(op_trial *trial, int64_t low, int64_t high); /* [low, high] */
/* A random shape of a rank in [low, high], at most some 600 elements; now and then a dimension
 * of 1, and 0 in every sixth trial. */
ph_shape op_random_shape(op_trial *trial, size_t low_rank, size_t high_rank);
/* One that broadcasts with shape: some dimensions made 1, some in front dropped. */
ph_shape op_random_broadcast(op_trial *trial, const ph_shape *shape);
/* shapes() of the usual cases. */
void op_shapes_same(op_trial *trial);      /* all inputs alike, rank 0 to 5 */
void op_shapes_broadcast(op_trial *trial); /* inputs that broadcast together */

/* ---- conversions ---- to the nearest, and back; the tests' own. */
void op_encode(void *to, ph_dtype dtype, const double *from, int64_t count);
void op_decode(double *to, ph_dtype dtype, const void *from, int64_t count);
#endif
