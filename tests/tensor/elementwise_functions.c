/* SPDX-License-Identifier: MIT */
/* tests/tensor/elementwise_functions.c: functions of one element against references and
 * differences, and at the edges of their ranges. */
#include "support/fixture.h"
#include "support/op_check.h"
#include "support/tensors.h"
#include <math.h>

typedef struct function {
    op_spec spec; /* first: a trial points to it */
    ph_tensor *(*fn)(ph_tape *tape, ph_tensor *x);
    double (*ref)(double x);
} function;

static void apply(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, const op_trial *trial)
{
    out[0] = ((const function *)trial->spec)->fn(tape, in[0]);
}

static void reference(op_array *out, const op_array *in, const op_trial *trial)
{
    op_array_make(&out[0], &in[0].shape);
    for (int64_t k = 0; k < in[0].count; k++)
        out[0].at[k] = ((const function *)trial->spec)->ref(in[0].at[k]);
}

static double rsqrt(double x)
{
    return 1 / sqrt(x);
}
static double square(double x)
{
    return x * x;
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double relu(double x)
{
    return fmax(x, 0);
}
static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
}
static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
static double silu(double x)
{
    return x / (1 + exp(-x));
}
static double leaky(double x)
{
    return x > 0 ? x : 0.1 * x;
}
static ph_tensor *leaky_relu(ph_tape *tape, ph_tensor *x)
{
    return ph_leaky_relu(tape, x, 0.1);
}

#define FUNCTION(call, want, ...)                                                                  \
    {                                                                                              \
        .spec = {.name = #call,                                                                    \
                 .in_count = 1,                                                                    \
                 .shapes = op_shapes_same,                                                         \
                 .apply = apply,                                                                   \
                 .reference = reference,                                                           \
                 __VA_ARGS__},                                                                     \
        .fn = call, .ref = want                                                                    \
    }

static void functions_and_their_gradients_match_the_references(void **state)
{
    ph_device *device = *state;
    static const function all[] = {
        FUNCTION(ph_exp, exp, .in = {{.low = -8, .high = 8}}),
        FUNCTION(ph_log, log, .in = {{.low = 0.01, .high = 20}},
                 .gradient_bound = {[PH_DTYPE_F64] = 1e-5}),
        FUNCTION(ph_sqrt, sqrt, .in = {{.low = 0.01, .high = 20}}),
        FUNCTION(ph_rsqrt, rsqrt, .in = {{.low = 0.1, .high = 20}},
                 .gradient_bound = {[PH_DTYPE_BF16] = 0.12}),
        FUNCTION(ph_square, square, .in = {{.low = -9, .high = 9}}),
        FUNCTION(ph_tanh, tanh, .in = {{.low = -5, .high = 5}}),
        FUNCTION(ph_sigmoid, sigmoid, .in = {{.low = -12, .high = 12}}),
        FUNCTION(ph_relu, relu, .in = {{.gap = 0.01}}),
        FUNCTION(ph_gelu, gelu, .in = {{.low = -6, .high = 6}}),
        FUNCTION(ph_gelu_tanh, gelu_tanh, .in = {{.low = -6, .high = 6}}),
        FUNCTION(ph_silu, silu, .in = {{.low = -12, .high = 12}}),
        FUNCTION(leaky_relu, leaky, .in = {{.gap = 0.01}}),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        op_check(device, &all[i].spec);
}

/* ---- the edges ---- one call on some values; NAN in want: any NaN. */
static void expect_edges(t_scene *s, ph_tensor *(*fn)(ph_tape *, ph_tensor *), const char *name,
                         ph_dtype dtype, const double *x, const double *want, int64_t count)
{
    double got[16];
    uint8_t bytes[16 * 8];
    op_encode(bytes, dtype, x, count);
    ph_tensor *y = fn(s->tape, ph_from_memory(s->tape, dtype, PH_SHAPE(count), bytes));
    assert_non_null(y);
    assert_ok(ph_tensor_read(s->tape, y, bytes, (size_t)count * ph_dtype_size(dtype)));
    op_decode(got, dtype, bytes, count);
    for (int64_t i = 0; i < count; i++)
        if (isnan(want[i]) ? !isnan(got[i])
                           : got[i] != want[i] || signbit(got[i]) != signbit(want[i]))
            fail_msg("%s of %g in %s is %g, not %g", name, x[i], ph_dtype_name(dtype), got[i],
                     want[i]);
}

#define EDGES(fn, ...)                                                                             \
    do {                                                                                           \
        const double pairs[][2] = {__VA_ARGS__};                                                   \
        double x[16], want[16];                                                                    \
        int64_t count = sizeof pairs / sizeof pairs[0];                                            \
        for (int64_t i = 0; i < count; i++) {                                                      \
            x[i] = pairs[i][0];                                                                    \
            want[i] = pairs[i][1];                                                                 \
        }                                                                                          \
        for (int d = PH_DTYPE_F32; d <= PH_DTYPE_BF16; d++)                                        \
            expect_edges(&s, fn, #fn, (ph_dtype)d, x, want, count);                                \
    } while (0)

TEST(functions_have_their_limits_at_the_edges)
{
    t_scene s;
    const double inf = (double)INFINITY, nan = (double)NAN;
    t_scene_open(&s);
    EDGES(ph_exp, {-inf, 0}, {inf, inf}, {nan, nan}, {0, 1}, {-0.0, 1}, {-2000, 0}, {2000, inf});
    EDGES(ph_log, {0, -inf}, {-0.0, -inf}, {inf, inf}, {-1, nan}, {-inf, nan}, {nan, nan}, {1, 0});
    EDGES(ph_sqrt, {0, 0}, {inf, inf}, {-1, nan}, {nan, nan}, {4, 2});
    EDGES(ph_rsqrt, {0, inf}, {inf, 0}, {-1, nan}, {nan, nan}, {4, 0.5});
    EDGES(ph_tanh, {0, 0}, {-0.0, -0.0}, {inf, 1}, {-inf, -1}, {nan, nan}, {50, 1}, {-50, -1});
    EDGES(ph_sigmoid, {0, 0.5}, {inf, 1}, {-inf, 0}, {nan, nan}, {-2000, 0}, {2000, 1});
    EDGES(ph_relu, {0, 0}, {-1, 0}, {inf, inf}, {-inf, 0}, {nan, nan}, {3, 3});
    EDGES(ph_gelu, {0, 0}, {-0.0, -0.0}, {inf, inf}, {nan, nan}, {100, 100}, {-100, -0.0});
    EDGES(ph_silu, {0, 0}, {-0.0, -0.0}, {inf, inf}, {nan, nan}, {100, 100});
    EDGES(ph_square, {-3, 9}, {inf, inf}, {nan, nan});
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(floats_are_wanted)
{
    t_scene s;
    t_scene_open(&s);
    static const struct {
        ph_tensor *(*fn)(ph_tape *tape, ph_tensor *x);
        const char *words;
    } all[] = {{ph_exp, "exp: a floating"},
               {ph_log, "log: a floating"},
               {ph_sqrt, "sqrt: a floating"},
               {ph_rsqrt, "rsqrt: a floating"},
               {ph_square, "square: a"},
               {ph_tanh, "tanh: a floating"},
               {ph_sigmoid, "sigmoid: a floating"},
               {ph_relu, "relu: a floating"},
               {ph_gelu, "gelu: a floating"},
               {ph_gelu_tanh, "gelu_tanh: a"},
               {ph_silu, "silu: a floating"},
               {leaky_relu, "leaky_relu: a"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_null(all[i].fn(s.tape, ph_zeros(s.tape, PH_DTYPE_I32, PH_SHAPE(3))));
        assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, all[i].words);
    }
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_DEVICE(functions_and_their_gradients_match_the_references),
        cmocka_unit_test(functions_have_their_limits_at_the_edges),
        cmocka_unit_test(floats_are_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
