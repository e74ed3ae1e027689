/* SPDX-License-Identifier: MIT */
/* tests/tensor/random_poisson.c: Poisson numbers: each held to the textbook's algorithm on the
 * same words, how they are distributed, and what comes of rates that are none. Seeds are fixed;
 * bounds of statistics are what chance exceeds once in some ten thousand times. */
#include "base/half.h"
#include "support/draws.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/generator.h"
#include "tensor/random/philox.h"
#include <math.h>

enum {
    SEED = 4711,
    OFFSET = 12
};

/* ---- by hand ---- */
static u64 wide_word(u64 element, u64 which)
{
    u64 block = OFFSET / 4 + 2 * which, group = element / 4;
    return (u64)ph_philox(SEED, block + 1, group).w[element % 4] << 32 |
           ph_philox(SEED, block, group).w[element % 4];
}

static double by_search(double u, double rate)
{
    long double chance = expl(-(long double)rate), sum = chance;
    double k = 0;
    while ((long double)u >= sum && k < 1000)
        sum += chance *= (long double)rate / (long double)++k;
    return k;
}

/* PTRS as it is published. */
static double by_rejection(u64 element, double rate)
{
    const double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
    for (u64 attempt = 0; attempt < 32; attempt++) {
        double u = ((double)(wide_word(element, 2 * attempt) >> 12) + 0.5) * 0x1p-52 - 0.5;
        double v = ((double)(wide_word(element, 2 * attempt + 1) >> 12) + 0.5) * 0x1p-52;
        double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= v_r)
            return k;
        if (k < 0 || (us < 0.013 && v > us))
            continue;
        long double chance =
            (long double)k * logl(rate) - (long double)rate - lgammal((long double)k + 1);
        if (logl(v) + logl(inverse_alpha) - logl(a / (us * us) + b) <= chance)
            return k;
    }
    return floor(rate);
}

static double by_hand(u64 element, double rate)
{
    return rate < 10 ? by_search((double)(wide_word(element, 0) >> 11) * 0x1p-53, rate)
                     : by_rejection(element, rate);
}

static const double rates[] = {0,      0x1p-60, 1e-3,   0.1,   0.5,  1,   2.5,   5,   7.75,
                               9.9375, 9.99999, 10,     10.5,  12,   20,  33.25, 64,  100,
                               333,    1000,    12345,  65000, 1e-9, 1e5, 1e6,   1e7, 123456,
                               3e8,    1e9,     1.5e10, 1e12,  4,    6.5};
enum {
    RATES = sizeof rates / sizeof *rates,
    EACH = 1500,
    N = RATES * EACH
};

static double rounded(ph_dtype dtype, double x)
{
    switch (dtype) {
    case PH_DTYPE_F32:
        return (float)x;
    case PH_DTYPE_F16:
        return ph__f16_get(ph__f16_put((float)x));
    case PH_DTYPE_BF16:
        return ph__bf16_get(ph__bf16_put((float)x));
    default:
        return x;
    }
}

/* The numbers of the list, one after the other, over and over. */
static ph_tensor *rates_of(t_scene *s, ph_dtype dtype)
{
    ph_tensor *x = ph_from_memory(s->tape, PH_DTYPE_F64, PH_SHAPE(RATES), rates);
    x = ph_expand(s->tape, ph_cast(s->tape, x, dtype), PH_SHAPE(EACH, RATES));
    return ph_reshape(s->tape, ph_contiguous(s->tape, x), PH_SHAPE(N));
}

TEST(test_by_hand)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, SEED);
    for (ph_dtype dtype = PH_DTYPE_F32; dtype <= PH_DTYPE_BF16; dtype++) {
        assert_ok(ph_generator_set_offset(g, OFFSET));
        ph_tensor *x = ph_poisson(s.tape, rates_of(&s, dtype));
        assert_int_equal(t_offset(g), OFFSET + 4 * 128);
        assert_int_equal(ph_tensor_dtype(x), dtype);
        double *got = t_bytes(&s, ph_cast(s.tape, x, PH_DTYPE_F64));
        for (u64 i = 0; i < N; i++) {
            double rate = rounded(dtype, rates[i % RATES]);
            if (isinf(rate)) { /* of f16 */
                assert_true(got[i] == rate);
                continue;
            }
            double want = rounded(dtype, by_hand(i, rate));
            if (got[i] != want)
                fail_msg("%s: element %llu of rate %.17g is %.17g, not %.17g", ph_dtype_name(dtype),
                         (unsigned long long)i, rate, got[i], want);
        }
        free(got);
        assert_ok(ph_tape_clear(s.tape));
    }
    ph_generator_release(g);
    t_scene_close(&s);
}

/* ---- statistics ---- */
enum {
    DRAWN = 1 << 17,
    MOST_BINS = 64
};

static double chance_of(double k, double rate)
{
    return exp(k * log(rate) - rate - lgamma(k + 1));
}

/* Bins of numbers next to each other, each of which is expected 40 times at least; the first and
 * the last take the rest of their side. */
static size_t make_bins(double *ends, double *expected, double rate)
{
    const double from = floor(fmax(0, rate - 4 * sqrt(rate))),
                 step = fmax(1, floor(sqrt(rate) / 6));
    double sum = 0, all = 0;
    size_t bins = 0;
    for (double k = fmax(0, from - 60 * sqrt(rate));
         bins < MOST_BINS - 1 && k < rate + 60 * sqrt(rate) + 60; k++) {
        sum += chance_of(k, rate);
        if (k < from || fmod(k - from, step) < step - 1 || sum * DRAWN < 40)
            continue;
        ends[bins] = k;
        expected[bins++] = sum * DRAWN;
        all += sum;
        sum = 0;
    }
    double rest = (1 - all) * DRAWN;
    if (bins > 1 && rest < 40)
        rest += expected[--bins];
    ends[bins] = INFINITY;
    expected[bins++] = rest;
    return bins;
}

/* Mean and variance of a Poisson distribution are its rate; its fourth central moment is 3
 * rate^2 + rate. */
static void check_rate(t_scene *s, ph_dtype dtype, double rate)
{
    double ends[MOST_BINS], expected[MOST_BINS], sum = 0, squares = 0, chi = 0;
    int64_t counts[MOST_BINS] = {0};
    size_t bins = make_bins(ends, expected, rate);
    double *x = t_bytes(
        s, ph_cast(s->tape, ph_poisson(s->tape, ph_full(s->tape, dtype, PH_SHAPE(DRAWN), rate)),
                   PH_DTYPE_F64));
    for (size_t i = 0; i < DRAWN; i++) {
        size_t bin = 0;
        assert_true(x[i] >= 0 && x[i] == floor(x[i]));
        while (x[i] > ends[bin])
            bin++;
        counts[bin]++;
        sum += x[i] - rate;
        squares += (x[i] - rate) * (x[i] - rate);
    }
    for (size_t i = 0; i < bins; i++)
        chi += ((double)counts[i] - expected[i]) * ((double)counts[i] - expected[i]) / expected[i];
    const double freedom = (double)bins - 1, v = 2 / (9 * freedom);
    if (bins > 1 && !(fabs(cbrt(chi / freedom) - (1 - v)) < 4 * sqrt(v)))
        fail_msg("rate %g: chi-square of %g with %g degrees of freedom", rate, chi, freedom);
    if (!(fabs(sum / DRAWN) < 4 * sqrt(rate / DRAWN)))
        fail_msg("rate %g: the mean is off by %g", rate, sum / DRAWN);
    if (!(fabs(squares / DRAWN - rate) < 4 * sqrt((2 * rate * rate + rate) / DRAWN)))
        fail_msg("rate %g: the variance is %g", rate, squares / DRAWN);
    free(x);
    assert_ok(ph_tape_clear(s->tape));
}

TEST(poisson_numbers_have_their_distribution_at_every_rate)
{
    static const double some[] = {0.01, 0.5, 1,  3,  7,   9.9375, 10,    10.5,
                                  12,   15,  25, 60, 200, 1000,   30000, 1e6};
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 2);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        check_rate(&s, PH_DTYPE_F64, some[i]);
        check_rate(&s, PH_DTYPE_F32, (double)(float)some[i]);
    }
    /* Of the halves, where they have all the numbers that come. */
    check_rate(&s, PH_DTYPE_F16, 0.5);
    check_rate(&s, PH_DTYPE_F16, 100);
    check_rate(&s, PH_DTYPE_BF16, 0.5);
    check_rate(&s, PH_DTYPE_BF16, 60);
    ph_generator_release(g);
    t_scene_close(&s);
}

/* Neighbours, which share the work of a group, know nothing of each other: below their median or
 * not. */
TEST(neighbouring_poisson_numbers_are_independent)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 3);
    int64_t runs[16] = {0};
    float *x = t_bytes(&s, ph_poisson(s.tape, ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(DRAWN), 40)));
    double below = 0, chi = 0;
    for (double k = 0; k <= 40; k++)
        below += chance_of(k, 40);
    for (size_t i = 0; i < DRAWN; i += 4)
        runs[(x[i] <= 40) | (x[i + 1] <= 40) << 1 | (x[i + 2] <= 40) << 2 |
             (x[i + 3] <= 40) << 3]++;
    for (unsigned i = 0; i < 16; i++) {
        double expected = DRAWN / 4;
        for (unsigned j = 0; j < 4; j++)
            expected *= i >> j & 1 ? below : 1 - below;
        chi += ((double)runs[i] - expected) * ((double)runs[i] - expected) / expected;
    }
    assert_true(chi > 3 && chi < 45); /* 15 degrees of freedom */
    free(x);
    assert_ok(ph_tape_clear(s.tape));
    ph_generator_release(g);
    t_scene_close(&s);
}

/* ---- edges ---- rates that are none, and those whose numbers the dtype has not. */
TEST(poisson_rates_at_the_edges_give_zero_infinity_or_nan)
{
    static const double odd[] = {0.0,     -0.0,      -1,      -INFINITY,  NAN,  INFINITY,
                                 0x1p120, 0x1p-1060, 0x1p100, -0x1p-1060, 1e300};
    enum {
        ODD = sizeof odd / sizeof *odd
    };
    t_scene s;
    t_scene_open(&s);
    double *x =
        t_bytes(&s, ph_poisson(s.tape, ph_from_memory(s.tape, PH_DTYPE_F64, PH_SHAPE(ODD), odd)));
    assert_true(x[0] == 0 && !signbit(x[0]) && x[1] == 0 && !signbit(x[1]) && x[7] == 0);
    assert_true(isnan(x[2]) && isnan(x[3]) && isnan(x[4]) && isnan(x[9]));
    assert_true(x[5] == INFINITY && x[6] == 0x1p120 && x[10] == 1e300);
    assert_true(fabs(x[8] - 0x1p100) <= 8 * 0x1p50);
    free(x);
    for (ph_dtype dtype = PH_DTYPE_F32; dtype <= PH_DTYPE_BF16; dtype++) {
        ph_tensor *rate = ph_from_memory(s.tape, PH_DTYPE_F64, PH_SHAPE(6), odd);
        ph_tensor *y = ph_poisson(s.tape, ph_cast(s.tape, rate, dtype));
        x = t_bytes(&s, ph_cast(s.tape, y, PH_DTYPE_F64));
        assert_true(x[0] == 0 && x[1] == 0 && isnan(x[2]) && isnan(x[3]) && isnan(x[4]) &&
                    x[5] == INFINITY);
        free(x);
    }
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(poisson_numbers_have_their_distribution_at_every_rate),
        cmocka_unit_test(neighbouring_poisson_numbers_are_independent),
        cmocka_unit_test(poisson_rates_at_the_edges_give_zero_infinity_or_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
