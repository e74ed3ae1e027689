/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_wide_rows.h: included by reduce_wide.h: sums of rows, and of four rows at a
 * time where there are registers enough. */
#define FOLD_WIDE(half)                                                                            \
    for (int v = 0; v < (half); v++)                                                               \
    part[v] = ADD_WIDE(part[v], part[v + (half)])

/* Joins what the lanes hold into *to. */
PH__LEVEL_TARGET static inline void OF_LEVEL(sum_lanes)(double *to, WIDE *part)
{
    double lane[WIDTH];
    if (SUM_LANES / WIDTH == 4)
        FOLD_WIDE(2);
    FOLD_WIDE(1);
    memcpy(lane, part, sizeof lane);
    if (WIDTH == 8)
        for (int k = 0; k < 4; k++)
            lane[k] += lane[k + 4];
    *to += (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

/* Eight elements of each lane, into the lanes. */
PH__LEVEL_TARGET static inline void OF_LEVEL(sum_group)(WIDE *part, const float *x)
{
    for (int v = 0; v < SUM_LANES / WIDTH; v += 2) {
        const NARROW t = OF_LEVEL(sum_eight)(x + v * WIDTH, SUM_LANES);
        part[v] = ADD_WIDE(part[v], WIDEN_LOW(t));
        part[v + 1] = ADD_WIDE(part[v + 1], WIDEN_HIGH(t));
    }
}

/* The row's last elements, from i on, and what the lanes hold of those before, into *to. */
PH__LEVEL_TARGET static inline void OF_LEVEL(sum_rest)(double *to, WIDE *part, const float *xs,
                                                       int64_t i, int64_t n)
{
    double lane[SUM_LANES], sum = 0;
    for (; i + SUM_LANES <= n; i += SUM_LANES)
        for (int v = 0; v < SUM_LANES / WIDTH; v++)
            part[v] = ADD_WIDE(part[v], READ_WIDE(xs + i + v * WIDTH));
    if (i < n) {
        memcpy(lane, part, sizeof lane);
        for (int k = 0; i + k < n; k++)
            lane[k] += (double)xs[i + k];
        memcpy(part, lane, sizeof lane);
    }
    OF_LEVEL(sum_lanes)(&sum, part);
    *to += isfinite(sum) ? sum : sum_row_in_f64(xs, n);
}

PH__LEVEL_TARGET static void OF_LEVEL(sum_wide_row)(void *accumulators, const void *x, int64_t n,
                                                    int64_t index, double a)
{
    const float *xs = x;
    WIDE part[SUM_LANES / WIDTH];
    int64_t i = 0;
    (void)index, (void)a;
    for (int v = 0; v < SUM_LANES / WIDTH; v++)
        part[v] = ZERO_WIDE();
    for (; i + SUM_GROUP <= n; i += SUM_GROUP)
        OF_LEVEL(sum_group)(part, xs + i);
    OF_LEVEL(sum_rest)(accumulators, part, xs, i, n);
}

#if HAS_ROWS4
PH__LEVEL_TARGET static void OF_LEVEL(sum_wide_rows4)(void *accumulators, const void *x, int64_t n,
                                                      int64_t step, double a)
{
    const float *xs = x;
    WIDE part[4][SUM_LANES / WIDTH];
    int64_t i = 0;
    (void)a;
    for (int r = 0; r < 4; r++)
        for (int v = 0; v < SUM_LANES / WIDTH; v++)
            part[r][v] = ZERO_WIDE();
    for (; i + SUM_GROUP <= n; i += SUM_GROUP) {
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++)
            OF_LEVEL(sum_group)(part[r], xs + r * step + i);
    }
    for (int r = 0; r < 4; r++)
        OF_LEVEL(sum_rest)((double *)accumulators + r, part[r], xs + r * step, i, n);
}
#endif
#undef FOLD_WIDE
