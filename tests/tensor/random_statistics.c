/* SPDX-License-Identifier: MIT */
/* tests/tensor/random_statistics.c: whether random numbers are distributed as they say: means,
 * variances, and chi-square over bins. Seeds are fixed, so that a result is the same each time;
 * bounds are what chance exceeds once in some ten thousand times. */
#include "support/draws.h"
#include "support/test.h"
#include <math.h>

enum {
    BINS = 64
};

static double chi_square(const int64_t *count, size_t bins, double expected)
{
    double sum = 0;
    for (size_t i = 0; i < bins; i++)
        sum += ((double)count[i] - expected) * ((double)count[i] - expected) / expected;
    return sum;
}

/* About normal, with this mean and variance (Wilson and Hilferty's cube root): within 4
 * deviations. */
static void assert_chi_square(const char *name, double x, double freedom)
{
    double v = 2 / (9 * freedom), z = (cbrt(x / freedom) - (1 - v)) / sqrt(v);
    if (!(fabs(z) < 4))
        fail_msg("%s: chi-square of %g with %g degrees of freedom", name, x, freedom);
}

static void assert_near(const char *name, double got, double want, double deviation)
{
    if (!(fabs(got - want) < 4 * deviation))
        fail_msg("%s: %g, expected %g with a deviation of %g", name, got, want, deviation);
}

/* ---- distributions by their distribution functions ---- cdf gives uniforms, which fill the
 * bins alike. */
static double cdf_uniform(double x)
{
    return (x - 2) / 3;
}
static double cdf_normal(double x)
{
    return 0.5 * erfc(-(x - 1) / 2 * 0.70710678118654752);
}
static double cdf_exponential(double x)
{
    return -expm1(-2.5 * x);
}
static double cdf_cauchy(double x)
{
    return 0.5 + atan((x + 1) / 2) / 3.14159265358979324;
}
static double cdf_log_normal(double x)
{
    return 0.5 * erfc(-(log(x) - 0.5) / 0.25 * 0.70710678118654752);
}

static ph_tensor *draw_uniform(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    return ph_uniform(tape, dtype, shape, 2, 5);
}
static ph_tensor *draw_normal(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    return ph_normal(tape, dtype, shape, 1, 2);
}
static ph_tensor *draw_exponential(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    return ph_exponential(tape, dtype, shape, 2.5);
}
static ph_tensor *draw_cauchy(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    ph_tensor *x = ph_empty(tape, dtype, shape);
    ph_tensor_cauchy(tape, x, -1, 2);
    return x;
}
static ph_tensor *draw_log_normal(ph_tape *tape, ph_dtype dtype, ph_shape shape)
{
    ph_tensor *x = ph_empty(tape, dtype, shape);
    ph_tensor_log_normal(tape, x, 0.5, 0.25);
    return x;
}

static const struct distribution {
    const char *name;
    ph_tensor *(*draw)(ph_tape *tape, ph_dtype dtype, ph_shape shape);
    double (*cdf)(double x);
    double mean, variance, fourth; /* the fourth central moment; variance 0: has none of them */
} distributions[] = {
    {"uniform", draw_uniform, cdf_uniform, 3.5, 0.75, 1.0125},
    {"normal", draw_normal, cdf_normal, 1, 4, 48},
    {"exponential", draw_exponential, cdf_exponential, 0.4, 0.16, 9 * 0.0256},
    {"cauchy", draw_cauchy, cdf_cauchy, 0, 0, 0},
    {"log_normal", draw_log_normal, cdf_log_normal, 1.70105730, 0.18662090, 0.14265048},
};

static void check_distribution(t_scene *s, const struct distribution *d, ph_dtype dtype)
{
    enum {
        N = 1 << 18
    };
    int64_t bins[BINS] = {0}, pairs[BINS] = {0}, *at;
    double sum = 0, squares = 0, last = 0;
    double *x = t_bytes(s, ph_cast(s->tape, d->draw(s->tape, dtype, PH_SHAPE(N)), PH_DTYPE_F64));
    for (size_t i = 0; i < N; i++) {
        double u = d->cdf(x[i]);
        assert_true(u >= 0 && u <= 1);
        at = &bins[(size_t)(u * BINS < BINS ? u * BINS : BINS - 1)];
        ++*at;
        /* Neighbours, and those that come of one word of Philox each, know nothing of each
         * other. */
        if (i % 2)
            pairs[(size_t)(fmin(u, 0.999999) * 8) * 8 + (size_t)(fmin(last, 0.999999) * 8)]++;
        last = u;
        sum += x[i];
        squares += (x[i] - d->mean) * (x[i] - d->mean);
    }
    assert_chi_square(d->name, chi_square(bins, BINS, (double)N / BINS), BINS - 1);
    assert_chi_square(d->name, chi_square(pairs, BINS, (double)N / 2 / BINS), BINS - 1);
    if (d->variance > 0) {
        assert_near(d->name, sum / N, d->mean, sqrt(d->variance / N));
        assert_near(d->name, squares / N, d->variance,
                    sqrt((d->fourth - d->variance * d->variance) / N));
    }
    free(x);
    assert_ok(ph_tape_clear(s->tape));
}

TEST(continuous_draws_have_their_distributions)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 1);
    for (size_t i = 0; i < sizeof distributions / sizeof *distributions; i++) {
        check_distribution(&s, &distributions[i], PH_DTYPE_F32);
        check_distribution(&s, &distributions[i], PH_DTYPE_F64);
    }
    ph_generator_release(g);
    t_scene_close(&s);
}

/* Elements of successive draws, and of neighbouring seeds, are independent too. */
TEST(test_successive_draws)
{
    enum {
        N = 1 << 17
    };
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 100);
    for (int other_seed = 0; other_seed < 2; other_seed++) {
        int64_t pairs[BINS] = {0};
        float *x = t_bytes(&s, ph_rand(s.tape, PH_DTYPE_F32, PH_SHAPE(N)));
        if (other_seed)
            assert_ok(ph_generator_seed(g, 101));
        float *y = t_bytes(&s, ph_rand(s.tape, PH_DTYPE_F32, PH_SHAPE(N)));
        for (size_t i = 0; i < N; i++)
            pairs[(size_t)(x[i] * 8) * 8 + (size_t)(y[i] * 8)]++;
        assert_chi_square("successive", chi_square(pairs, BINS, (double)N / BINS), BINS - 1);
        free(x);
        free(y);
        assert_ok(ph_tape_clear(s.tape));
        assert_ok(ph_generator_seed(g, 100));
    }
    ph_generator_release(g);
    t_scene_close(&s);
}

/* The halves have few values: each of them as often as the others, and never high itself. */
TEST(uniform_draws_of_halves_are_even_and_below_one)
{
    enum {
        N = 1 << 18
    };
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 7);
    int64_t fine[2048] = {0}, coarse[256] = {0};
    double *x =
        t_bytes(&s, ph_cast(s.tape, ph_rand(s.tape, PH_DTYPE_F16, PH_SHAPE(N)), PH_DTYPE_F64));
    double *y =
        t_bytes(&s, ph_cast(s.tape, ph_rand(s.tape, PH_DTYPE_BF16, PH_SHAPE(N)), PH_DTYPE_F64));
    for (size_t i = 0; i < N; i++) {
        assert_true(x[i] < 1 && y[i] < 1);
        fine[(size_t)(x[i] * 2048)]++;
        coarse[(size_t)(y[i] * 256)]++;
    }
    assert_chi_square("f16", chi_square(fine, 2048, N / 2048.0), 2047);
    assert_chi_square("bf16", chi_square(coarse, 256, N / 256.0), 255);
    free(x);
    free(y);
    assert_ok(ph_tape_clear(s.tape));
    ph_generator_release(g);
    t_scene_close(&s);
}

/* [low, high) holds where rounding would give high: ranges of a few numbers of the dtype. */
TEST(test_high_is_never_drawn)
{
    static const struct {
        ph_dtype dtype;
        double low, high;
    } ranges[] = {{PH_DTYPE_F32, 1, 1 + 0x1p-22}, {PH_DTYPE_F32, 1000, 1000 + 0x1p-13},
                  {PH_DTYPE_F64, 1, 1 + 0x1p-51}, {PH_DTYPE_F16, 1, 1 + 0x1p-9},
                  {PH_DTYPE_BF16, 1, 1 + 0x1p-6}, {PH_DTYPE_F16, -3, 3},
                  {PH_DTYPE_BF16, -1, 0.33},      {PH_DTYPE_F32, -1e38, 1e38},
                  {PH_DTYPE_F32, 0, 0x1p-149},    {PH_DTYPE_F64, -1e-310, 1e-310},
                  {PH_DTYPE_F32, 5, 5},           {PH_DTYPE_F16, -60000, 60000}};
    enum {
        N = 50000
    };
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 7);
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++) {
        ph_tensor *x =
            ph_uniform(s.tape, ranges[k].dtype, PH_SHAPE(N), ranges[k].low, ranges[k].high);
        ph_tensor *ends = ph_from_memory(s.tape, PH_DTYPE_F64, PH_SHAPE(2),
                                         (double[]){ranges[k].low, ranges[k].high});
        double *e =
            t_bytes(&s, ph_cast(s.tape, ph_cast(s.tape, ends, ranges[k].dtype), PH_DTYPE_F64));
        double *v = t_bytes(&s, ph_cast(s.tape, x, PH_DTYPE_F64));
        int64_t lows = 0;
        for (size_t i = 0; i < N; i++) {
            assert_true(v[i] >= e[0] && (v[i] < e[1] || (e[0] == e[1] && v[i] == e[0])));
            lows += v[i] == e[0];
        }
        assert_true(lows < N || e[1] - e[0] < 0x1p-140);
        free(e);
        free(v);
        assert_ok(ph_tape_clear(s.tape));
    }
    ph_generator_release(g);
    t_scene_close(&s);
}

TEST(events_come_with_their_probability)
{
    enum {
        N = 1 << 17
    };
    static const double probabilities[] = {-1, 0, 0x1p-20, 0.1, 0.5, 0.999, 1, 2, NAN};
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 9);
    for (int dtype = PH_DTYPE_F32; dtype <= PH_DTYPE_BF16; dtype++)
        for (size_t k = 0; k < sizeof probabilities / sizeof *probabilities; k++) {
            ph_tensor *p = ph_full(s.tape, (ph_dtype)dtype, PH_SHAPE(N), probabilities[k]);
            double *one = t_bytes(&s, ph_cast(s.tape, ph_slice(s.tape, p, 0, 0, 1), PH_DTYPE_F64)),
                   sum = 0;
            double *x = t_bytes(&s, ph_cast(s.tape, ph_bernoulli(s.tape, p), PH_DTYPE_F64));
            double q = !(one[0] > 0) ? 0 : one[0] < 1 ? one[0] : 1;
            for (size_t i = 0; i < N; i++) {
                assert_true(x[i] == 0 || x[i] == 1);
                sum += x[i];
            }
            if (q == 0 || q == 1)
                assert_true(sum == q * N);
            else
                assert_near("bernoulli", sum, q * N, sqrt(q * (1 - q) * N) + 0.3);
            free(one);
            free(x);
            assert_ok(ph_tape_clear(s.tape));
        }
    ph_generator_release(g);
    t_scene_close(&s);
}

TEST(test_events_in_place)
{
    enum {
        N = 1 << 16
    };
    static const double probabilities[] = {0, 0.25, 1};
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 9);
    for (int dtype = PH_DTYPE_F32; dtype <= PH_DTYPE_BOOL; dtype++)
        for (size_t k = 0; k < 3; k++) {
            ph_tensor *x = ph_zeros(s.tape, (ph_dtype)dtype, PH_SHAPE(N));
            ph_tensor_bernoulli(s.tape, x, probabilities[k]);
            double *v = t_bytes(&s, ph_cast(s.tape, x, PH_DTYPE_F64)), sum = 0;
            for (size_t i = 0; i < N; i++) {
                assert_true(v[i] == 0 || v[i] == 1);
                sum += v[i];
            }
            if (k == 1)
                assert_near("bernoulli", sum, 0.25 * N, sqrt(0.1875 * N));
            else
                assert_true(sum == probabilities[k] * N);
            free(v);
            assert_ok(ph_tape_clear(s.tape));
        }
    ph_generator_release(g);
    t_scene_close(&s);
}

TEST(random_integers_are_uniform_in_their_range)
{
    enum {
        N = 1 << 18
    };
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 9);
    int64_t three[3] = {0}, all[256] = {0}, wide[BINS] = {0};
    int64_t *a = t_bytes(&s, ph_randint(s.tape, PH_DTYPE_I64, PH_SHAPE(N), -1, 2));
    uint8_t *b = t_bytes(&s, ph_randint(s.tape, PH_DTYPE_U8, PH_SHAPE(N), 0, 256));
    int64_t *c = t_bytes(&s, ph_randint(s.tape, PH_DTYPE_I64, PH_SHAPE(N), INT64_MIN, INT64_MAX));
    int32_t *d = t_bytes(
        &s, ph_randint(s.tape, PH_DTYPE_I32, PH_SHAPE(N), INT32_MIN, INT64_C(1) + INT32_MAX));
    for (size_t i = 0; i < N; i++) {
        assert_true(a[i] >= -1 && a[i] < 2);
        three[a[i] + 1]++;
        all[b[i]]++;
        wide[(uint64_t)c[i] >> 58]++;
    }
    assert_chi_square("three", chi_square(three, 3, N / 3.0), 2);
    assert_chi_square("u8", chi_square(all, 256, N / 256.0), 255);
    assert_chi_square("i64", chi_square(wide, BINS, (double)N / BINS), BINS - 1);
    memset(wide, 0, sizeof wide);
    for (size_t i = 0; i < N; i++)
        wide[(uint32_t)d[i] >> 26]++;
    assert_chi_square("i32", chi_square(wide, BINS, (double)N / BINS), BINS - 1);
    free(a);
    free(b);
    free(c);
    free(d);
    assert_ok(ph_tape_clear(s.tape));
    int64_t *fixed = t_bytes(&s, ph_randint(s.tape, PH_DTYPE_I64, PH_SHAPE(100), 41, 42));
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(fixed[i], 41);
    free(fixed);
    assert_ok(ph_tape_clear(s.tape));
    ph_generator_release(g);
    t_scene_close(&s);
}

TEST(geometric_draws_count_trials_from_one)
{
    enum {
        N = 1 << 17
    };
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 19);
    int64_t trials[12] = {0};
    double chi = 0;
    ph_tensor *t = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(N));
    ph_tensor_geometric(s.tape, t, 0.3);
    float *x = t_bytes(&s, t);
    for (size_t i = 0; i < N; i++) {
        assert_true(x[i] >= 1 && x[i] == floorf(x[i]));
        trials[x[i] < 12 ? (size_t)x[i] - 1 : 11]++;
    }
    for (int k = 0; k < 12; k++) {
        double expected = N * (k < 11 ? 0.3 * pow(0.7, k) : pow(0.7, 11));
        chi += ((double)trials[k] - expected) * ((double)trials[k] - expected) / expected;
    }
    assert_chi_square("geometric", chi, 11);
    free(x);
    ph_tensor_geometric(s.tape, t, 1);
    x = t_bytes(&s, t);
    for (size_t i = 0; i < N; i++)
        assert_true(x[i] == 1);
    free(x);
    assert_ok(ph_tape_clear(s.tape));
    ph_generator_release(g);
    t_scene_close(&s);
}

/* ---- permutations ---- */
static void assert_permutation(const int64_t *x, int64_t n)
{
    char *seen = calloc(1, (size_t)n + 1);
    assert_non_null(seen);
    for (int64_t i = 0; i < n; i++) {
        assert_true(x[i] >= 0 && x[i] < n && !seen[x[i]]);
        seen[x[i]] = 1;
    }
    free(seen);
}

TEST(permutations_of_any_length_hold_each_number_once)
{
    static const int64_t counts[] = {
        0,     1,     2,     3,      5,      255,    256,           257,     1023,
        1024,  1025,  1026,  2047,   2048,   2049,   4096,          4097,    10000,
        65535, 65536, 65537, 100003, 262144, 262145, (1 << 20) - 1, 1 << 20, (1 << 20) + 1};
    t_scene s;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 5);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        ph_tensor *x = ph_randperm(s.tape, counts[k]);
        int64_t *v = t_bytes(&s, x);
        assert_int_equal(ph_tensor_count(x), counts[k]);
        assert_permutation(v, counts[k]);
        free(v);
        assert_ok(ph_tape_clear(s.tape));
    }
    ph_generator_release(g);
    t_scene_close(&s);
}

/* All 24 of four numbers come alike. */
TEST(test_short_permutations)
{
    enum {
        ROUNDS = 6000
    };
    t_scene s;
    int64_t count[24] = {0};
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 5);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t *x = t_bytes(&s, ph_randperm(s.tape, 4));
        int64_t second = x[1] - (x[1] > x[0]), third = x[2] - (x[2] > x[0]) - (x[2] > x[1]);
        count[x[0] * 6 + second * 2 + third]++;
        free(x);
        assert_ok(ph_tape_clear(s.tape));
    }
    assert_chi_square("permutations of 4", chi_square(count, 24, ROUNDS / 24.0), 23);
    ph_generator_release(g);
    t_scene_close(&s);
}

/* Of many long ones: where numbers come to, what follows them, fixed points (one on average, and
 * a variance of one), and inversions between neighbours. */
static void check_long_permutations(int64_t n, int rounds)
{
    t_scene s;
    int64_t place[BINS] = {0}, distance[BINS] = {0}, fixed = 0, fixed_squares = 0, descents = 0;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 77);
    for (int k = 0; k < rounds; k++) {
        int64_t *x = t_bytes(&s, ph_randperm(s.tape, n)), here = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t quarter = i * 8 / n, to = x[i] * 8 / n, next = x[(i + 1) % n];
            place[quarter * 8 + to]++;
            distance[((next - x[i] + n) % n - 1) * BINS / (n - 1)]++;
            here += x[i] == i;
            descents += i + 1 < n && next < x[i];
        }
        fixed += here;
        fixed_squares += here * here;
        free(x);
        assert_ok(ph_tape_clear(s.tape));
    }
    const double total = (double)n * rounds;
    /* Rows and columns of the table have their sums given. */
    if (n % 8 == 0)
        assert_chi_square("places",
                          chi_square(place, BINS, total / BINS) * (double)(n - 1) / (double)n, 49);
    if ((n - 1) % BINS == 0)
        assert_chi_square("distances", chi_square(distance, BINS, total / BINS), BINS - 1);
    assert_near("fixed points", (double)fixed / rounds, 1, sqrt(1.0 / rounds));
    assert_near("their squares", (double)fixed_squares / rounds, 2, sqrt(11.0 / rounds));
    assert_near("descents", (double)descents / rounds, (double)(n - 1) / 2,
                sqrt((double)(n + 1) / 12 / rounds));
    ph_generator_release(g);
    t_scene_close(&s);
}

TEST(test_long_permutations)
{
    const int rounds = t_nightly() ? 20000 : 400;
    check_long_permutations(1032, rounds);
    check_long_permutations(64 * 18 + 1, rounds);
    check_long_permutations(2048, rounds);
    check_long_permutations(64 * 33 + 1, rounds);
    check_long_permutations(5000, rounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(continuous_draws_have_their_distributions),
        cmocka_unit_test(test_successive_draws),
        cmocka_unit_test(uniform_draws_of_halves_are_even_and_below_one),
        cmocka_unit_test(test_high_is_never_drawn),
        cmocka_unit_test(events_come_with_their_probability),
        cmocka_unit_test(test_events_in_place),
        cmocka_unit_test(random_integers_are_uniform_in_their_range),
        cmocka_unit_test(geometric_draws_count_trials_from_one),
        cmocka_unit_test(permutations_of_any_length_hold_each_number_once),
        cmocka_unit_test(test_short_permutations),
        cmocka_unit_test(test_long_permutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
