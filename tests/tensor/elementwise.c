/* SPDX-License-Identifier: MIT */
/* tests/tensor/elementwise.c: arithmetic of two tensors, and of a tensor and a number: against
 * references and differences, integers, and what is refused. */
#include "support/fixture.h"
#include "support/op_check.h"
#include "support/tensors.h"
#include <math.h>

static const ph_dtype integers[OP_DTYPES] = {PH_DTYPE_I32, PH_DTYPE_I64, PH_DTYPE_U8};

/* ---- two operands ---- */
typedef struct binary {
    op_spec spec; /* first: a trial points to it */
    ph_tensor *(*fn)(ph_tape *tape, ph_tensor *a, ph_tensor *b);
    double (*ref)(double a, double b);
} binary;

static void apply_binary(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                         const op_trial *trial)
{
    out[0] = ((const binary *)trial->spec)->fn(tape, in[0], in[1]);
}

static void reference_binary(op_array *out, const op_array *in, const op_trial *trial)
{
    int64_t index[PH_MAX_RANK] = {0}, k = 0;
    ph_shape shape = in[in[1].shape.rank > in[0].shape.rank].shape;
    for (size_t i = 1; i <= shape.rank; i++)
        for (size_t o = 0; o < 2; o++)
            if (i <= in[o].shape.rank && in[o].shape.dim[in[o].shape.rank - i] != 1)
                shape.dim[shape.rank - i] = in[o].shape.dim[in[o].shape.rank - i];
    op_array_make(&out[0], &shape);
    if (out[0].count > 0)
        do {
            double a = in[0].at[op_at(&in[0], index, shape.rank)],
                   b = in[1].at[op_at(&in[1], index, shape.rank)];
            out[0].at[k++] = ((const binary *)trial->spec)->ref(a, b);
        } while (op_next(index, &shape));
}

static double add(double a, double b)
{
    return a + b;
}
static double sub(double a, double b)
{
    return a - b;
}
static double mul(double a, double b)
{
    return a * b;
}
static double divided(double a, double b)
{
    return a / b;
}
static double cut(double a, double b)
{
    return b == 0 ? 0 : trunc(a / b);
}

#define BINARY(call, want, ...)                                                                    \
    {                                                                                              \
        .spec = {.name = #call,                                                                    \
                 .in_count = 2,                                                                    \
                 .trials = 24,                                                                     \
                 .shapes = op_shapes_broadcast,                                                    \
                 .apply = apply_binary,                                                            \
                 .reference = reference_binary,                                                    \
                 __VA_ARGS__},                                                                     \
        .fn = call, .ref = want                                                                    \
    }

static void arithmetic_of_floats(void **state)
{
    ph_device *device = *state;
    static const binary all[] = {
        BINARY(ph_add, add, .in = {{0}}),
        BINARY(ph_sub, sub, .in = {{0}}),
        BINARY(ph_mul, mul, .in = {{0}}),
        BINARY(ph_div, divided, .in = {{0}, {.gap = 0.5}},
               .gradient_bound = {[PH_DTYPE_BF16] = 0.1}),
        BINARY(ph_maximum, fmax, .in = {{.low = -2, .high = 2}, {.low = -2.5, .high = 1.7}}),
        BINARY(ph_minimum, fmin, .in = {{.low = -2, .high = 2}, {.low = -2.5, .high = 1.7}}),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        op_check(device, &all[i].spec);
}

static void arithmetic_of_integers(void **state)
{
    ph_device *device = *state;
    static const binary all[] = {
        BINARY(ph_add, add, .in = {{.low = 0, .high = 100}, {.low = 0, .high = 100}}),
        BINARY(ph_sub, sub, .in = {{.low = 100, .high = 200}, {.low = 0, .high = 100}}),
        BINARY(ph_mul, mul, .in = {{.low = 0, .high = 16}, {.low = 0, .high = 16}}),
        BINARY(ph_div, cut, .in = {{.low = 0, .high = 100}, {.low = 0, .high = 9}}),
        BINARY(ph_maximum, fmax, .in = {{.low = 0, .high = 9}, {.low = 0, .high = 9}}),
        BINARY(ph_minimum, fmin, .in = {{.low = 0, .high = 9}, {.low = 0, .high = 9}}),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        binary one = all[i];
        memcpy(one.spec.dtypes, integers, sizeof integers);
        one.spec.no_gradient = true;
        op_check(device, &one.spec);
    }
}

/* ---- a number ---- */
typedef struct numbered {
    op_spec spec;
    ph_tensor *(*fn)(ph_tape *tape, ph_tensor *x, double a);
    double (*ref)(double x, double a);
    double a;
} numbered;

static void apply_number(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                         const op_trial *trial)
{
    const numbered *n = (const numbered *)trial->spec;
    out[0] = n->fn(tape, in[0], n->a);
}

static void reference_number(op_array *out, const op_array *in, const op_trial *trial)
{
    const numbered *n = (const numbered *)trial->spec;
    op_array_make(&out[0], &in[0].shape);
    for (int64_t k = 0; k < in[0].count; k++)
        out[0].at[k] = n->ref(in[0].at[k], n->a);
}

static ph_tensor *neg(ph_tape *tape, ph_tensor *x, double a)
{
    (void)a;
    return ph_neg(tape, x);
}
static double negated(double x, double a)
{
    return a - x;
}
static ph_tensor *absolute(ph_tape *tape, ph_tensor *x, double a)
{
    (void)a;
    return ph_abs(tape, x);
}
static double magnitude(double x, double a)
{
    (void)a;
    return fabs(x);
}
static ph_tensor *clamp(ph_tape *tape, ph_tensor *x, double a)
{
    return ph_clamp(tape, x, -a, a);
}
static double clamped(double x, double a)
{
    return fmin(fmax(x, -a), a);
}

#define NUMBERED(call, want, number, ...)                                                          \
    {                                                                                              \
        .spec = {.name = #call,                                                                    \
                 .in_count = 1,                                                                    \
                 .shapes = op_shapes_same,                                                         \
                 .apply = apply_number,                                                            \
                 .reference = reference_number,                                                    \
                 __VA_ARGS__},                                                                     \
        .fn = call, .ref = want, .a = number                                                       \
    }

static void numbers_with_floats(void **state)
{
    ph_device *device = *state;
    static const numbered all[] = {
        NUMBERED(ph_add_scalar, add, 0.75, .in = {{0}}),
        NUMBERED(ph_mul_scalar, mul, -1.5, .in = {{0}}),
        NUMBERED(ph_pow_scalar, pow, 2, .in = {{0}}),
        NUMBERED(ph_pow_scalar, pow, 3, .bound = {[PH_DTYPE_F32] = 4e-6}),
        NUMBERED(ph_pow_scalar, pow, 0, .in = {{0}}),
        NUMBERED(ph_pow_scalar, pow, 1, .in = {{0}}),
        NUMBERED(ph_pow_scalar, pow, -0.7, .in = {{.low = 0.2, .high = 3}},
                 .bound = {[PH_DTYPE_F32] = 4e-6}, .gradient_bound = {[PH_DTYPE_F32] = 4e-5}),
        NUMBERED(neg, negated, 0, .in = {{0}}),
        NUMBERED(absolute, magnitude, 0, .in = {{.gap = 0.01}}),
        /* No number of a short dtype: at the limit itself, differences give half of each side. */
        NUMBERED(clamp, clamped, 1.003, .in = {{.low = -1.97, .high = 2.03}}),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        op_check(device, &all[i].spec);
}

static void numbers_with_integers(void **state)
{
    ph_device *device = *state;
    static const numbered all[] = {
        NUMBERED(ph_add_scalar, add, 7, .in = {{.low = 0, .high = 100}}),
        NUMBERED(ph_mul_scalar, mul, 3, .in = {{.low = 0, .high = 50}}),
        NUMBERED(clamp, clamped, 20, .in = {{.low = 0, .high = 100}}),
        NUMBERED(absolute, magnitude, 0, .in = {{.low = 0, .high = 100}}),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        numbered one = all[i];
        memcpy(one.spec.dtypes, integers, sizeof integers);
        one.spec.no_gradient = true;
        op_check(device, &one.spec);
    }
}

/* ---- at the edges ---- */
static void expect_i32(ph_tape *tape, ph_tensor *x, const int32_t *want, size_t count)
{
    int32_t got[16];
    assert_non_null(x);
    assert_ok(ph_tensor_read(tape, x, got, count * sizeof *got));
    assert_memory_equal(got, want, count * sizeof *got);
}

TEST(integers_wrap_and_division_never_traps)
{
    t_scene s;
    t_scene_open(&s);
    const int32_t a[] = {INT32_MAX, INT32_MIN, INT32_MIN, -7, 7}, b[] = {1, -1, 0, 2, -2};
    ph_tensor *x = ph_from_memory(s.tape, PH_DTYPE_I32, PH_SHAPE(5), a);
    ph_tensor *y = ph_from_memory(s.tape, PH_DTYPE_I32, PH_SHAPE(5), b);
    expect_i32(s.tape, ph_add(s.tape, x, y),
               (const int32_t[]){INT32_MIN, INT32_MAX, INT32_MIN, -5, 5}, 5);
    expect_i32(s.tape, ph_div(s.tape, x, y), (const int32_t[]){INT32_MAX, INT32_MIN, 0, -3, -3}, 5);
    expect_i32(s.tape, ph_neg(s.tape, x),
               (const int32_t[]){-INT32_MAX, INT32_MIN, INT32_MIN, 7, -7}, 5);
    expect_i32(s.tape, ph_abs(s.tape, x), (const int32_t[]){INT32_MAX, INT32_MIN, INT32_MIN, 7, 7},
               5);
    expect_i32(s.tape, ph_mul_scalar(s.tape, x, 2), (const int32_t[]){-2, 0, 0, -14, 14}, 5);
    expect_i32(s.tape, ph_clamp(s.tape, x, -5, INFINITY),
               (const int32_t[]){INT32_MAX, -5, -5, -5, 7}, 5);
    const int64_t big[] = {INT64_MIN, INT64_MAX};
    int64_t got[2];
    ph_tensor *z = ph_from_memory(s.tape, PH_DTYPE_I64, PH_SHAPE(2), big);
    assert_ok(ph_tensor_read(
        s.tape, ph_div(s.tape, z, ph_full(s.tape, PH_DTYPE_I64, PH_SCALAR, -1)), got, sizeof got));
    assert_true(got[0] == INT64_MIN && got[1] == -INT64_MAX);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(nan_goes_through_maximum_and_clamp)
{
    t_scene s;
    t_scene_open(&s);
    const float a[] = {NAN, 1, NAN}, b[] = {1, NAN, NAN};
    float got[3];
    ph_tensor *x = ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(3), a),
              *y = ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(3), b);
    ph_tensor *all[] = {ph_maximum(s.tape, x, y), ph_minimum(s.tape, x, y)};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(ph_tensor_read(s.tape, all[i], got, sizeof got));
        assert_true(isnan(got[0]) && isnan(got[1]) && isnan(got[2]));
    }
    assert_ok(ph_tensor_read(s.tape, ph_clamp(s.tape, x, -1, 0.5), got, sizeof got));
    assert_true(isnan(got[0]) && got[1] == 0.5f && isnan(got[2]));
    /* Bounds the wrong way round: the upper one. */
    t_expect_values(s.tape, ph_clamp(s.tape, ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(1), 7), 3, 2),
                    PH_SHAPE(1), 2);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

static void expect_gradients(t_scene *s, ph_tensor *(*fn)(ph_tape *, ph_tensor *, ph_tensor *),
                             const float *ga, const float *gb)
{
    const float a[] = {1, 2, 3}, b[] = {1, 3, 2};
    ph_tensor *x = ph_from_memory(s->tape, PH_DTYPE_F32, PH_SHAPE(3), a),
              *y = ph_from_memory(s->tape, PH_DTYPE_F32, PH_SHAPE(3), b);
    assert_ok(ph_tensor_set_requires_grad(x, true));
    assert_ok(ph_tensor_set_requires_grad(y, true));
    ph_backward(s->tape, ph_sum(s->tape, fn(s->tape, x, y)));
    t_expect(s->tape, ph_tensor_grad(x), PH_SHAPE(3), ga);
    t_expect(s->tape, ph_tensor_grad(y), PH_SHAPE(3), gb);
    assert_ok(ph_tape_clear(s->tape));
}

TEST(ties_share_the_gradient)
{
    t_scene s;
    t_scene_open(&s);
    expect_gradients(&s, ph_maximum, (const float[]){0.5f, 0, 1}, (const float[]){0.5f, 1, 0});
    expect_gradients(&s, ph_minimum, (const float[]){0.5f, 1, 0}, (const float[]){0.5f, 0, 1});
    ph_tensor *x = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2));
    assert_ok(ph_tensor_set_requires_grad(x, true));
    ph_backward(s.tape, ph_sum(s.tape, ph_abs(s.tape, x)));
    t_expect_values(s.tape, ph_tensor_grad(x), PH_SHAPE(2), 0, 0);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* The limits are inside. */
TEST(clamp_hands_on_gradients_at_its_limits)
{
    static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16};
    t_scene s;
    t_scene_open(&s);
    for (size_t i = 0; i < 4; i++) {
        const float values[] = {-1.0625f, -1, -0.5f, 1, 1.0625f};
        ph_tensor *from = ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(5), values),
                  *x = ph_cast(s.tape, from, dtypes[i]);
        assert_ok(ph_tensor_set_requires_grad(x, true));
        ph_backward(s.tape, ph_sum(s.tape, ph_clamp(s.tape, x, -1, 1)));
        assert_ok(ph_tape_status(s.tape));
        t_expect_values(s.tape, ph_cast(s.tape, ph_tensor_grad(x), PH_DTYPE_F32), PH_SHAPE(5), 0, 1,
                        1, 1, 0);
        assert_ok(ph_tape_clear(s.tape));
    }
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
#define I32(...) ph_zeros(s.tape, PH_DTYPE_I32, PH_SHAPE(__VA_ARGS__))
    REFUSED(ph_add(s.tape, F32(2), I32(2)), "add: the operands must be of one dtype");
    REFUSED(ph_add(s.tape, F32(2), F32(3)),
            "add: the shapes do not broadcast (got f32[2], f32[3])");
    REFUSED(ph_mul(s.tape, ph_zeros(s.tape, PH_DTYPE_BOOL, PH_SHAPE(2)),
                   ph_zeros(s.tape, PH_DTYPE_BOOL, PH_SHAPE(2))),
            "mul: all dtypes but bool");
    REFUSED(ph_add(s.tape, NULL, F32(2)), "operand 0 is NULL");
    REFUSED(ph_pow_scalar(s.tape, I32(2), 3), "pow_scalar: a floating dtype");
    REFUSED(ph_mul_scalar(s.tape, I32(2), 0.5), "mul_scalar: 0.5 is no integer");
    REFUSED(ph_add_scalar(s.tape, I32(2), INFINITY), "add_scalar: inf is no integer");
    REFUSED(ph_clamp(s.tape, I32(2), 0.5, 2), "clamp: 0.5 is no integer");
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_DEVICE(arithmetic_of_floats),
        ON_DEVICE(arithmetic_of_integers),
        ON_DEVICE(numbers_with_floats),
        ON_DEVICE(numbers_with_integers),
        cmocka_unit_test(integers_wrap_and_division_never_traps),
        cmocka_unit_test(nan_goes_through_maximum_and_clamp),
        cmocka_unit_test(ties_share_the_gradient),
        cmocka_unit_test(clamp_hands_on_gradients_at_its_limits),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
