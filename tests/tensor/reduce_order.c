/* SPDX-License-Identifier: MIT */
/* tests/tensor/reduce_order.c: the host's sums of f32 at each level of instructions that this
 * processor runs: their order, and that no sum overflows that is a number in f64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/test.h"
#include "tensor/kernels/reduce_cores.h"
#include <math.h>
#include <string.h>

/* ---- the order of sums ---- */
enum {
    LEVEL_MOST = 1000,
    LEVEL_STEP = LEVEL_MOST + 3
};

static float eight_in_order(const float *x, size_t step)
{
    float pair[4];
    for (size_t k = 0; k < 4; k++)
        pair[k] = x[2 * k * step] + x[(2 * k + 1) * step];
    return (pair[0] + pair[1]) + (pair[2] + pair[3]);
}

/* Sixteen side by side, each of eight in f32, or of one; folded by halves. */
static double sum_in_order(const float *x, size_t n)
{
    double lane[16] = {0};
    const size_t grouped = n / 128 * 128;
    for (size_t i = 0; i < grouped; i += 128)
        for (size_t k = 0; k < 16; k++)
            lane[k] += (double)eight_in_order(x + i + k, 16);
    for (size_t i = grouped; i < n; i++)
        lane[i % 16] += (double)x[i];
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t k = 0; k < width; k++)
            lane[k] += lane[k + width];
    return lane[0];
}

/* Terms that cancel, so that another order has another sum. */
static const float *cancelling_terms(void)
{
    static float x[8 * LEVEL_STEP];
    ph__rng rng = {7};
    for (size_t i = 0; i < 8 * LEVEL_STEP; i++)
        x[i] = (float)ldexp((double)(ph__rng_next(&rng) >> 11) * 0x1p-52 - 1,
                            (int)(ph__rng_next(&rng) % 90));
    return x;
}

static void expect_columns_in_order(const ph__reduce_cores *cores, const float *x, size_t n)
{
    static double four[LEVEL_MOST], eight[LEVEL_MOST];
    for (size_t i = 0; i < n; i++)
        four[i] = eight[i] = (double)i;
    cores->columns4(four, x, (int64_t)n, LEVEL_STEP, 0);
    cores->columns8(eight, x, (int64_t)n, LEVEL_STEP, 0);
    for (size_t i = 0; i < n; i++) {
        double want = (double)i;
        for (size_t k = 0; k < 4; k++)
            want += (double)x[k * LEVEL_STEP + i];
        assert_true(four[i] == want);
        assert_true(eight[i] == (double)i + (double)eight_in_order(x + i, LEVEL_STEP));
    }
}

static void expect_rows_in_order(const ph__reduce_cores *cores, const float *x, size_t n)
{
    double sums[4] = {0.5, 1.5, 2.5, 3.5};
    if (!cores->rows4)
        return;
    cores->rows4(sums, x, (int64_t)n, LEVEL_STEP, 0);
    for (size_t r = 0; r < 4; r++)
        assert_true(sums[r] == 0.5 + (double)r + sum_in_order(x + r * LEVEL_STEP, n));
}

TEST(sums_of_floats_keep_their_order)
{
    const float *x = cancelling_terms();
    for (int level = PH__CORE_BASE; level <= (int)ph__core_level(); level++) {
        const ph__reduce_cores *cores =
            ph__reduce_cores_at((ph__core_level_number)level, PH__REDUCE_sum, PH__CORE_F32);
        for (size_t n = 0; n <= LEVEL_MOST; n = n < 300 ? n + 1 : n + 43) {
            double sum = 0.5;
            cores->row(&sum, x + 1, (int64_t)n, 0, 0);
            assert_true(sum == 0.5 + sum_in_order(x + 1, n));
            expect_rows_in_order(cores, x + 1, n);
            expect_columns_in_order(cores, x + 1, n);
        }
    }
}

/* ---- sums of eight that are not finite ---- */
static void expect_row(const ph__reduce_cores *cores, const float *x, double want)
{
    double sum = 0;
    cores->row(&sum, x, 128, 0, 0);
    assert_true(isnan(want) ? isnan(sum) : sum == want);
}

/* The last of four rows is the one, the others are zeros. */
static void expect_rows(const ph__reduce_cores *cores, const float *x, double want)
{
    float rows[4 * 128] = {0};
    double sums[4] = {0};
    if (!cores->rows4)
        return;
    memcpy(rows + 384, x, 128 * sizeof *x);
    cores->rows4(sums, rows, 128, 128, 0);
    for (size_t r = 0; r < 4; r++) {
        const double expected = r == 3 ? want : 0;
        assert_true(isnan(expected) ? isnan(sums[r]) : sums[r] == expected);
    }
}

static void expect_columns(const ph__reduce_cores *cores, const float *x, double want)
{
    double sums[24] = {0};
    cores->columns8(sums, x, 24, 24, 0);
    for (size_t i = 0; i < 24; i++)
        if (i == 5 || i == 21)
            assert_true(isnan(want) ? isnan(sums[i]) : sums[i] == want);
        else
            assert_true(sums[i] == 8);
}

/* Eight elements, 16 apart in a row and 24 in columns 5 and 21, the others 1. */
static void expect_eight(const ph__reduce_cores *cores, const float *eight, double want)
{
    float row[128], columns[8 * 24];
    for (size_t i = 0; i < 128; i++)
        row[i] = i % 16 == 3 ? eight[i / 16] : 0;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        columns[i] = i % 24 == 5 || i % 24 == 21 ? eight[i / 24] : 1;
    expect_row(cores, row, want);
    expect_rows(cores, row, want);
    expect_columns(cores, columns, want);
}

TEST(sums_of_floats_do_not_overflow_on_the_way)
{
    static const float large[8] = {3e38F, 3e38F, 3e38F, 1, -3e38F, -3e38F, -3e38F, 0},
                       all[8] = {3e38F, 3e38F, 3e38F, 3e38F, 3e38F, 3e38F, 3e38F, 3e38F},
                       infinite[8] = {1, INFINITY, 2}, both[8] = {INFINITY, 0, 0, -INFINITY},
                       none[8] = {0, 0, NAN};
    for (int level = PH__CORE_BASE; level <= (int)ph__core_level(); level++) {
        const ph__reduce_cores *cores =
            ph__reduce_cores_at((ph__core_level_number)level, PH__REDUCE_sum, PH__CORE_F32);
        double in_order = 0; /* of large, in f64 */
        for (size_t k = 0; k < 8; k++)
            in_order += (double)large[k];
        expect_eight(cores, large, in_order);
        expect_eight(cores, all, 8 * (double)3e38F);
        expect_eight(cores, infinite, INFINITY);
        expect_eight(cores, both, NAN);
        expect_eight(cores, none, NAN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_floats_keep_their_order),
        cmocka_unit_test(sums_of_floats_do_not_overflow_on_the_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
