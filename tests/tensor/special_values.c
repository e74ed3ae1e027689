/* SPDX-License-Identifier: MIT */
/* tests/tensor/special_values.c: infinities, NaN, signed zeros and huge numbers in operators, as
 * PyTorch has them. */
#include "support/grads.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>

static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F64, PH_DTYPE_F16, PH_DTYPE_BF16};
enum {
    DTYPES = 4,
    MOST = 16
};

static bool same(double got, double want, double bound)
{
    if (isnan(want))
        return isnan(got);
    if (isinf(want) || want == 0)
        return got == want && signbit(got) == signbit(want);
    return fabs(got - want) <= bound * fabs(want);
}

/* In f32, from any dtype. bound: what is within it of 1 is alike. */
static void expect(const t_scene *s, ph_tensor *y, const float *want, int n, double bound,
                   const char *what)
{
    float got[MOST];
    assert_non_null(y);
    assert_ok(
        ph_tensor_read(s->tape, ph_cast(s->tape, y, PH_DTYPE_F32), got, (size_t)n * sizeof *got));
    for (int i = 0; i < n; i++)
        if (!same((double)got[i], (double)want[i], bound))
            fail_msg("%s: element %d is %g, expected %g", what, i, (double)got[i], (double)want[i]);
}

static double bound_of(ph_dtype dtype)
{
    return dtype == PH_DTYPE_BF16 ? 1e-2 : dtype == PH_DTYPE_F16 ? 2e-3 : 1e-6;
}

static ph_tensor *of(const t_scene *s, const float *values, int n, ph_dtype dtype)
{
    return ph_cast(s->tape, ph_from_memory(s->tape, PH_DTYPE_F32, PH_SHAPE(n), values), dtype);
}

/* ---- pow ---- */
static const float specials[] = {-INFINITY, -4, -0.0f, 0, 4, INFINITY, NAN};
enum {
    SPECIALS = 7
};
#define N NAN
#define I INFINITY
static const struct {
    double exponent;
    float want[SPECIALS];
} powers[] = {
    {0.5, {N, N, -0.0f, 0, 2, I, N}},
    {-0.5, {N, N, -I, I, 0.5f, 0, N}},
    {0, {1, 1, 1, 1, 1, 1, 1}},
    {1, {-I, -4, -0.0f, 0, 4, I, N}},
    {2, {I, 16, 0, 0, 16, I, N}},
    {3, {-I, -64, -0.0f, 0, 64, I, N}},
    {-1, {-0.0f, -0.25f, -I, I, 0.25f, 0, N}},
    {-2, {0, 0.0625f, I, I, 0.0625f, 0, N}},
    {1.5, {I, N, 0, 0, 8, I, N}},
    {-1.5, {0, N, I, I, 0.125f, 0, N}},
};

TEST(powers_of_special_values_match_the_table)
{
    t_scene s;
    char what[64];
    t_scene_open(&s);
    for (size_t p = 0; p < sizeof powers / sizeof powers[0]; p++)
        for (int d = 0; d < DTYPES; d++) {
            (void)snprintf(what, sizeof what, "pow %g of %s", powers[p].exponent,
                           ph_dtype_name(dtypes[d]));
            expect(&s,
                   ph_pow_scalar(s.tape, of(&s, specials, SPECIALS, dtypes[d]), powers[p].exponent),
                   powers[p].want, SPECIALS, bound_of(dtypes[d]), what);
        }
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* a x^(a - 1), with x^(a - 1) as above. */
TEST(test_gradients_of_pow)
{
    static const struct {
        double exponent;
        float want[SPECIALS];
    } rows[] = {
        {1.5, {N, N, -0.0f, 0, 3, I, N}},
        {0.5, {N, N, -I, I, 0.25f, 0, N}},
        {0, {0, 0, 0, 0, 0, 0, 0}},
        {3, {I, 48, 0, 0, 48, I, N}},
    };
    t_scene s;
    t_scene_open(&s);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        ph_tensor *x = t_leaf_of(&s, PH_SHAPE(SPECIALS), specials);
        ph_backward(s.tape, ph_sum(s.tape, ph_pow_scalar(s.tape, x, rows[r].exponent)));
        expect(&s, ph_tensor_grad(x), rows[r].want, SPECIALS, 1e-6, "a gradient of pow");
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor_release(x);
    }
    t_scene_close(&s);
}

/* ---- bounds and choices ---- */
TEST(clamped_special_values_and_gradients_match_the_table)
{
    static const float x[] = {-I, -2, -0.0f, 0.5f, 3, I, N};
    static const struct {
        double low, high;
        float want[SPECIALS];
    } rows[] = {
        {-1, 1, {-1, -1, -0.0f, 0.5f, 1, 1, N}}, {N, 1, {N, N, N, N, N, N, N}},
        {-1, N, {N, N, N, N, N, N, N}},          {N, N, {N, N, N, N, N, N, N}},
        {-I, I, {-I, -2, -0.0f, 0.5f, 3, I, N}}, {1, -1, {-1, -1, -1, -1, -1, -1, N}},
        {-I, 1, {-I, -2, -0.0f, 0.5f, 1, 1, N}},
    };
    t_scene s;
    t_scene_open(&s);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int d = 0; d < DTYPES; d++)
            expect(&s, ph_clamp(s.tape, of(&s, x, SPECIALS, dtypes[d]), rows[r].low, rows[r].high),
                   rows[r].want, SPECIALS, bound_of(dtypes[d]), "clamp");
    ph_tensor *leaf = t_leaf_of(&s, PH_SHAPE(SPECIALS), x);
    ph_backward(s.tape, ph_sum(s.tape, ph_clamp(s.tape, leaf, -1, 1)));
    expect(&s, ph_tensor_grad(leaf), (const float[]){0, 0, 1, 1, 0, 0, 0}, SPECIALS, 0,
           "clamp's gradient");
    assert_ok(ph_tape_clear(s.tape));
    t_zero_grad(leaf);
    ph_backward(s.tape, ph_sum(s.tape, ph_clamp(s.tape, leaf, -1, N)));
    expect(&s, ph_tensor_grad(leaf), (const float[]){0, 0, 0, 0, 0, 0, 0}, SPECIALS, 0,
           "clamp's gradient");
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(leaf);
    t_scene_close(&s);
}

TEST(test_nan_in_choices)
{
    static const float a[] = {N, 1, N, -I, I}, b[] = {1, N, N, N, N};
    static const float five[] = {N, N, N, N, N}, relu[] = {N, 1, N, 0, I},
                       leaky[] = {N, 1, N, -I, I};
    t_scene s;
    t_scene_open(&s);
    for (int d = 0; d < DTYPES; d++) {
        ph_tensor *x = of(&s, a, 5, dtypes[d]), *y = of(&s, b, 5, dtypes[d]);
        expect(&s, ph_maximum(s.tape, x, y), five, 5, 0, "maximum");
        expect(&s, ph_minimum(s.tape, x, y), five, 5, 0, "minimum");
        expect(&s, ph_relu(s.tape, x), relu, 5, 0, "relu");
        expect(&s, ph_leaky_relu(s.tape, x, 0.5), leaky, 5, 0, "leaky_relu");
        expect(&s, ph_max(s.tape, x), five, 1, 0, "max");
        expect(&s, ph_max(s.tape, y), five, 1, 0, "max");
    }
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* ---- rows ---- */
TEST(softmax_of_special_values_matches_the_table)
{
    static const struct {
        float x[3], want[3], logarithm[3];
    } rows[] = {
        {{30000, -30000, 30000}, {0.5f, 0, 0.5f}, {-0.6931472f, -60000.693f, -0.6931472f}},
        {{-I, 1, -I}, {0, 1, 0}, {-I, 0, -I}},
        {{-I, -I, -I}, {N, N, N}, {N, N, N}},
        {{I, 1, 2}, {N, N, N}, {N, N, N}},
        {{I, -I, I}, {N, N, N}, {N, N, N}},
        {{N, 1, 2}, {N, N, N}, {N, N, N}},
    };
    static const float huge[] = {3e38f, -3e38f, 1}, one[] = {1, 0, 0},
                       far_below[] = {0, -I, -3e38f};
    t_scene s;
    t_scene_open(&s);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int d = 0; d < DTYPES; d++) {
            ph_tensor *x = of(&s, rows[r].x, 3, dtypes[d]);
            expect(&s, ph_softmax(s.tape, x, 0), rows[r].want, 3, bound_of(dtypes[d]), "softmax");
            expect(&s, ph_log_softmax(s.tape, x, 0), rows[r].logarithm, 3, bound_of(dtypes[d]),
                   "log_softmax");
        }
    expect(&s, ph_softmax(s.tape, of(&s, huge, 3, PH_DTYPE_F32), 0), one, 3, 1e-6, "softmax");
    expect(&s, ph_log_softmax(s.tape, of(&s, huge, 3, PH_DTYPE_F32), 0), far_below, 3, 1e-6,
           "log_softmax");
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* f32's squares are numbers up to about 1.8e19; f16 and bf16 are squared in f32, f64 in f64. */
TEST(norms_of_large_values_match_the_table)
{
    static const float large[] = {1e18f, -1e18f, 1e18f, -1e18f}, units[] = {1, -1, 1, -1};
    static const float larger[] = {1e20f, -1e20f, 1e20f, -1e20f}, zeros[] = {0, -0.0f, 0, -0.0f};
    static const float halves[] = {60000, -60000, 60000, -60000}, length[] = {2e20f};
    t_scene s;
    t_scene_open(&s);
    for (int d = 0; d < DTYPES; d++) {
        ph_tensor *x = of(&s, dtypes[d] == PH_DTYPE_F16 ? halves : large, 4, dtypes[d]);
        expect(&s, ph_rms_norm(s.tape, x, NULL, 0), units, 4, bound_of(dtypes[d]), "rms_norm");
        expect(&s, ph_layer_norm(s.tape, x, NULL, NULL, 0), units, 4, bound_of(dtypes[d]),
               "layer_norm");
        if (dtypes[d] == PH_DTYPE_F16)
            continue;
        x = of(&s, larger, 4, dtypes[d]);
        const float *want = dtypes[d] == PH_DTYPE_F64 ? units : zeros;
        expect(&s, ph_rms_norm(s.tape, x, NULL, 0), want, 4, 1e-6, "rms_norm");
        expect(&s, ph_layer_norm(s.tape, x, NULL, NULL, 0), want, 4, 1e-6, "layer_norm");
        expect(&s, ph_norm(s.tape, x, 2), length, 1, bound_of(dtypes[d]), "norm");
    }
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(powers_of_special_values_match_the_table),
        cmocka_unit_test(test_gradients_of_pow),
        cmocka_unit_test(clamped_special_values_and_gradients_match_the_table),
        cmocka_unit_test(test_nan_in_choices),
        cmocka_unit_test(softmax_of_special_values_matches_the_table),
        cmocka_unit_test(norms_of_large_values_match_the_table),
    };
    return cmocka_run_group_tests_name("tensor.special_values", tests, NULL, NULL);
}
