/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_sum.h: included by reduce_cores.c: the order of sums of f32, as plain C:
 * the base level, and what the vectors of reduce_wide.h leave over.
 *
 * Eight elements are added in f32, by pairs of pairs, and that sum goes into an accumulator in f64:
 * three roundings to f32 on the way of each element. In a row they are 16 elements apart, in
 * columns they are of eight rows. Sums of eight that are not finite are made anew in f64, so that
 * no sum overflows that is a number in f64. */
enum {
    SUM_LANES = 16, /* accumulators side by side in a row, joined by halves */
    SUM_GROUP = 8 * SUM_LANES
};

static inline float sum_eight(const float *x, int64_t step)
{
    return ((x[0] + x[step]) + (x[2 * step] + x[3 * step])) +
           ((x[4 * step] + x[5 * step]) + (x[6 * step] + x[7 * step]));
}

static double sum_eight_in_column(const float *x, int64_t step)
{
    double sum = (double)sum_eight(x, step);
    if (__builtin_expect(isfinite(sum), 1))
        return sum;
    sum = 0;
    for (int k = 0; k < 8; k++)
        sum += (double)x[k * step];
    return sum;
}

static double fold_sum_lanes(double *lane)
{
    for (int width = SUM_LANES / 2; width > 0; width /= 2)
        for (int k = 0; k < width; k++)
            lane[k] += lane[k + width];
    return lane[0];
}

/* Of a row that has an infinity, a NaN, or sums of eight that overflow. */
static double sum_row_in_f64(const float *x, int64_t n)
{
    double lane[SUM_LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % SUM_LANES] += (double)x[i];
    return fold_sum_lanes(lane);
}

static void sum_f32_row(void *accumulators, const void *x, int64_t n, int64_t index, double a)
{
    const float *xs = x;
    double *to = accumulators, lane[SUM_LANES] = {0}, sum;
    int64_t i = 0;
    (void)index, (void)a;
    for (; i + SUM_GROUP <= n; i += SUM_GROUP) {
        float eight[SUM_LANES];
        for (int k = 0; k < SUM_LANES; k++)
            eight[k] = sum_eight(xs + i + k, SUM_LANES);
        for (int k = 0; k < SUM_LANES; k++)
            lane[k] += (double)eight[k];
    }
    for (; i + SUM_LANES <= n; i += SUM_LANES)
        for (int k = 0; k < SUM_LANES; k++)
            lane[k] += (double)xs[i + k];
    for (int k = 0; i + k < n; k++)
        lane[k] += (double)xs[i + k];
    sum = fold_sum_lanes(lane);
    *to += isfinite(sum) ? sum : sum_row_in_f64(xs, n);
}

static void sum_f32_columns8(void *accumulators, const void *x, int64_t n, int64_t step, double a)
{
    const float *xs = x;
    double *to = accumulators;
    (void)a;
    for (int64_t i = 0; i < n; i++)
        to[i] += sum_eight_in_column(xs + i, step);
}

static const ph__reduce_cores sum_f32_base = {.accumulator = sizeof(double),
                                              .start = sum_start_f32_base,
                                              .row = sum_f32_row,
                                              .columns = sum_columns_f32_base,
                                              .columns4 = sum_columns4_f32_base,
                                              .columns8 = sum_f32_columns8,
                                              .join = sum_join_f32_base,
                                              .end = sum_end_f32_base};
