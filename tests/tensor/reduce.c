/* SPDX-License-Identifier: MIT */
/* tests/tensor/reduce.c: sum, mean, max, argmax and norm over any axes against references and
 * differences; empty tensors, ties, and what is refused. */
#include "support/fixture.h"
#include "support/op_check.h"
#include "support/tensors.h"
#include <math.h>

typedef struct reduction {
    op_spec spec; /* first: a trial points to it */
    ph_tensor *(*fn)(ph_tape *tape, ph_tensor *x, const ph_axes *axes, bool keep,
                     double p); /* axes NULL: all */
    double (*value)(double t, double p);
    double (*end)(double sum, double n, double p);
    double p;
    bool most, place; /* the largest value; where it is */
} reduction;

/* p[0]: bit i: axis i goes; p[1]: keep; p[2]: all axes, by the call without axes. */
static void shapes(op_trial *trial)
{
    const reduction *r = (const reduction *)trial->spec;
    trial->shape[0] = op_random_shape(trial, r->place ? 1 : 0, 5);
    ph_shape *x = &trial->shape[0];
    if (r->most || r->place)
        for (size_t i = 0; i < x->rank; i++)
            x->dim[i] = x->dim[i] == 0 ? 2 : x->dim[i];
    trial->p[0] = r->place ? 1 << op_random(trial, 0, (int64_t)x->rank - 1)
                           : op_random(trial, 0, (1 << x->rank) - 1);
    trial->p[1] = op_random(trial, 0, 1);
    trial->p[2] = !r->place && op_random(trial, 0, 4) == 0;
    if (trial->p[2]) {
        trial->p[0] = (1 << x->rank) - 1;
        trial->p[1] = 0;
    }
}

static void apply(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, const op_trial *trial)
{
    const reduction *r = (const reduction *)trial->spec;
    const int rank = (int)trial->shape[0].rank;
    ph_axes axes = {0};
    for (int d = rank; d-- > 0;) /* in any order, from either end */
        if (trial->p[0] >> d & 1)
            axes.axis[axes.count++] = d % 2 ? d : d - rank;
    out[0] = r->fn(tape, in[0], trial->p[2] ? NULL : &axes, trial->p[1], r->p);
}

static void reference(op_array *out, const op_array *in, const op_trial *trial)
{
    const reduction *r = (const reduction *)trial->spec;
    ph_shape kept = in[0].shape, shape = {0};
    double n = 1;
    for (size_t d = 0; d < kept.rank; d++) {
        bool gone = trial->p[0] >> d & 1;
        n *= gone ? (double)kept.dim[d] : 1;
        kept.dim[d] = gone ? 1 : kept.dim[d];
        if (!gone || trial->p[1])
            shape.dim[shape.rank++] = kept.dim[d];
    }
    op_array_make(&out[0], &kept);
    int64_t index[PH_MAX_RANK] = {0}, k = 0;
    double *best = calloc((size_t)out[0].count + 1, sizeof *best);
    assert_non_null(best);
    for (int64_t i = 0; i < out[0].count; i++)
        best[i] = (double)-INFINITY;
    if (in[0].count > 0)
        do {
            double t = in[0].at[k++];
            int64_t at = op_at(&out[0], index, kept.rank);
            if (!r->most && !r->place)
                out[0].at[at] += r->value(t, r->p);
            else if (r->value(t, r->p) > best[at]) {
                best[at] = r->value(t, r->p);
                out[0].at[at] = best[at];
                for (size_t d = 0; r->place && d < kept.rank; d++)
                    if (trial->p[0] >> d & 1)
                        out[0].at[at] = (double)index[d];
            }
        } while (op_next(index, &in[0].shape));
    for (int64_t i = 0; i < out[0].count; i++)
        out[0].at[i] = r->end(out[0].at[i], n, r->p);
    free(best);
    out[0].shape = shape;
}

static ph_tensor *sum(ph_tape *tape, ph_tensor *x, const ph_axes *axes, bool keep, double p)
{
    (void)p;
    return axes ? ph_sum_over(tape, x, *axes, keep) : ph_sum(tape, x);
}
static ph_tensor *mean(ph_tape *tape, ph_tensor *x, const ph_axes *axes, bool keep, double p)
{
    (void)p;
    return axes ? ph_mean_over(tape, x, *axes, keep) : ph_mean(tape, x);
}
static ph_tensor *largest(ph_tape *tape, ph_tensor *x, const ph_axes *axes, bool keep, double p)
{
    (void)p;
    return axes ? ph_max_over(tape, x, *axes, keep) : ph_max(tape, x);
}
static ph_tensor *argmax(ph_tape *tape, ph_tensor *x, const ph_axes *axes, bool keep, double p)
{
    (void)p;
    return ph_argmax(tape, x, axes->axis[0], keep);
}
static ph_tensor *norm(ph_tape *tape, ph_tensor *x, const ph_axes *axes, bool keep, double p)
{
    return axes ? ph_norm_over(tape, x, p, *axes, keep) : ph_norm(tape, x, p);
}
static double same(double t, double p)
{
    (void)p;
    return t;
}
static double magnitude(double t, double p)
{
    (void)p;
    return fabs(t);
}
static double power(double t, double p)
{
    return pow(fabs(t), p);
}
static double whole(double sum, double n, double p)
{
    (void)n, (void)p;
    return sum;
}
static double average(double sum, double n, double p)
{
    (void)p;
    return sum / n;
}
static double root(double sum, double n, double p)
{
    (void)n;
    return pow(sum, 1 / p);
}

#define REDUCTION(call, each, last, exponent, takes_most, takes_place, ...)                        \
    {                                                                                              \
        .spec = {.name = #call,                                                                    \
                 .in_count = 1,                                                                    \
                 .trials = 24,                                                                     \
                 .shapes = shapes,                                                                 \
                 .apply = apply,                                                                   \
                 .reference = reference,                                                           \
                 __VA_ARGS__},                                                                     \
        .fn = call, .value = each, .end = last, .p = exponent, .most = takes_most,                 \
        .place = takes_place                                                                       \
    }

static void reductions_of_floats(void **state)
{
    ph_device *device = *state;
    static const reduction all[] = {
        REDUCTION(sum, same, whole, 0, false, false, .in = {{0}}),
        REDUCTION(mean, same, average, 0, false, false, .in = {{0}}),
        REDUCTION(norm, magnitude, whole, 1, false, false, .in = {{.gap = 0.01}}),
        REDUCTION(norm, power, root, 2, false, false, .in = {{.gap = 0.01}}),
        REDUCTION(norm, power, root, 3, false, false, .in = {{.gap = 0.01}}),
        REDUCTION(norm, power, root, 1.5, false, false, .in = {{.gap = 0.01}}),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        op_check(device, &all[i].spec);
}

static void largest_of_floats(void **state)
{
    ph_device *device = *state;
    static const ph_dtype narrow[OP_DTYPES] = {PH_DTYPE_F32, PH_DTYPE_F64};
    static const reduction all[] = {
        REDUCTION(largest, same, whole, 0, true, false, .in = {{.distinct = true}}),
        REDUCTION(norm, magnitude, whole, (double)INFINITY, true, false,
                  .in = {{.distinct = true, .low = 0.5, .high = 4}}),
        REDUCTION(argmax, same, whole, 0, false, true, .in = {{.distinct = true}}),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        reduction one = all[i];
        memcpy(one.spec.dtypes, narrow, sizeof narrow);
        op_check(device, &one.spec);
    }
    reduction halves = all[0];
    halves.spec.no_gradient = true; /* close values are one there: differences say nothing */
    op_check(device, &halves.spec);
}

static void reductions_of_integers(void **state)
{
    ph_device *device = *state;
    static const ph_dtype integers[OP_DTYPES] = {PH_DTYPE_I32, PH_DTYPE_I64, PH_DTYPE_U8,
                                                 PH_DTYPE_BOOL};
    static const reduction all[] = {
        REDUCTION(sum, same, whole, 0, false, false, .no_gradient = true,
                  .in = {{.low = 0, .high = 2}}),
        REDUCTION(largest, same, whole, 0, true, false, .no_gradient = true,
                  .in = {{.low = 0, .high = 2}}),
        REDUCTION(argmax, same, whole, 0, false, true, .no_gradient = true,
                  .in = {{.low = 0, .high = 2}}),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        reduction one = all[i];
        memcpy(one.spec.dtypes, integers, sizeof integers);
        op_check(device, &one.spec);
    }
}

/* ---- the edges ---- */
TEST(nothing_to_reduce)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 0, 3));
    double got;
    t_expect_values(s.tape, ph_sum_over(s.tape, x, PH_AXES(1), false), PH_SHAPE(2, 3), 0, 0, 0, 0,
                    0, 0);
    t_expect_values(s.tape, ph_norm_over(s.tape, x, 2, PH_AXES(0, 1), true), PH_SHAPE(1, 1, 3), 0,
                    0, 0);
    t_expect_values(s.tape, ph_sum(s.tape, x), PH_SCALAR, 0);
    assert_ok(ph_tensor_item(&got, s.tape, ph_mean(s.tape, x)));
    assert_true(isnan(got));
    t_expect(s.tape, ph_max_over(s.tape, x, PH_AXES(0), false), PH_SHAPE(0, 3), NULL);
    assert_null(ph_max(s.tape, x));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT,
                 "max: there is no largest of no elements");
    x = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 0, 3));
    assert_null(ph_argmax(s.tape, x, 1, false));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT,
                 "argmax: there is no largest of no elements (got f32[2, 0, 3])");
    ph_tensor *scalar = ph_full(s.tape, PH_DTYPE_F32, PH_SCALAR, -3);
    t_expect_values(s.tape, ph_sum(s.tape, scalar), PH_SCALAR, -3);
    t_expect_values(s.tape, ph_norm(s.tape, scalar, 2), PH_SCALAR, 3);
    t_expect_values(s.tape, ph_sum_over(s.tape, scalar, (ph_axes){0}, true), PH_SCALAR, -3);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(ties_and_nan)
{
    t_scene s;
    t_scene_open(&s);
    static const float values[] = {1, 4, 4, 0, 4, 2, 2, 2};
    ph_tensor *x = ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 4), values);
    assert_ok(ph_tensor_set_requires_grad(x, true));
    ph_backward(s.tape, ph_sum(s.tape, ph_max_over(s.tape, x, PH_AXES(-1), false)));
    t_expect_values(s.tape, ph_tensor_grad(x), PH_SHAPE(2, 4), 0, 0.5f, 0.5f, 0, 1, 0, 0, 0);
    assert_ok(ph_tensor_set_grad(x, NULL));
    ph_backward(s.tape, ph_norm(s.tape, x, (double)INFINITY));
    t_expect_values(s.tape, ph_tensor_grad(x), PH_SHAPE(2, 4), 0, 1.0f / 3, 1.0f / 3, 0, 1.0f / 3,
                    0, 0, 0);
    int64_t place[2];
    assert_ok(ph_tensor_read(s.tape, ph_argmax(s.tape, x, 1, false), place, sizeof place));
    assert_true(place[0] == 1 && place[1] == 0);

    float with_nan[300];
    for (int i = 0; i < 300; i++)
        with_nan[i] = (float)(i % 7);
    with_nan[201] = with_nan[250] = NAN;
    double got;
    ph_tensor *n = ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(300), with_nan);
    assert_ok(ph_tensor_item(&got, s.tape, ph_max(s.tape, n)));
    assert_true(isnan(got));
    assert_ok(ph_tensor_item(&got, s.tape, ph_norm(s.tape, n, (double)INFINITY)));
    assert_true(isnan(got));
    assert_ok(ph_tensor_item(&got, s.tape, ph_argmax(s.tape, n, 0, false)));
    assert_true(got == 201);
    ph_tensor *low = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(40), (double)-INFINITY);
    assert_ok(ph_tensor_item(&got, s.tape, ph_argmax(s.tape, low, 0, false)));
    assert_true(got == 0);
    assert_ok(ph_tensor_item(&got, s.tape, ph_max(s.tape, low)));
    assert_true(got == (double)-INFINITY);
    ph_tensor *zero = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(3));
    assert_ok(ph_tensor_set_requires_grad(zero, true));
    ph_backward(s.tape, ph_norm(s.tape, zero, 2));
    t_expect_values(s.tape, ph_tensor_grad(zero), PH_SHAPE(3), 0, 0, 0);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scene_open(&s);
#define REFUSED(call, part)                                                                        \
    do {                                                                                           \
        assert_null(call);                                                                         \
        assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, part);                              \
    } while (0)
#define F32(...) ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(__VA_ARGS__))
    REFUSED(ph_sum_over(s.tape, F32(2, 3), PH_AXES(2), false),
            "sum: there is no axis 2 (got f32[2, 3])");
    REFUSED(ph_sum_over(s.tape, F32(2, 3), PH_AXES(0, -2), false), "sum: axis -2 is named twice");
    REFUSED(ph_mean_over(s.tape, F32(2, 3), PH_AXES(-3), false), "mean: there is no axis -3");
    REFUSED(ph_sum_over(s.tape, F32(2), (ph_axes){.count = 9}, false), "sum: 9 axes");
    REFUSED(ph_argmax(s.tape, ph_zeros(s.tape, PH_DTYPE_F32, PH_SCALAR), 0, false),
            "argmax: there is no axis 0");
    REFUSED(ph_mean(s.tape, ph_zeros(s.tape, PH_DTYPE_I32, PH_SHAPE(2))), "mean: a floating dtype");
    REFUSED(ph_norm(s.tape, ph_zeros(s.tape, PH_DTYPE_U8, PH_SHAPE(2)), 2),
            "norm: a floating dtype");
    REFUSED(ph_norm(s.tape, F32(2), 0), "norm: a norm of p = 0");
    REFUSED(ph_norm(s.tape, F32(2), (double)NAN), "norm: a norm of p = ");
    REFUSED(ph_max(s.tape, NULL), "max: operand 0 is NULL");
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_DEVICE(reductions_of_floats),   ON_DEVICE(largest_of_floats),
        ON_DEVICE(reductions_of_integers), cmocka_unit_test(nothing_to_reduce),
        cmocka_unit_test(ties_and_nan),    cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
