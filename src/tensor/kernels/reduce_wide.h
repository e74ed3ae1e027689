/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_wide.h: included by reduce_cores.c for each level of vectors that converts
 * f32 to f64 as it reads: the loops of `sum` over f32. The compiler's own read a whole vector of
 * f32 and take it apart, which keeps one unit busy all the time. WIDE: a vector of f64, of WIDTH
 * elements; READ_WIDE, ADD_WIDE, ZERO_WIDE. Sums are in the order of reduce_loops.h, to the bit. */
#define WIDE_NAME_(name, level) name##_##level
#define WIDE_NAME(name, level)  WIDE_NAME_(name, level)
#define OF_LEVEL(name)          WIDE_NAME(name, PH__LEVEL)
#define FOLD_WIDE(half)                                                                            \
    for (int v = 0; v < (half); v++)                                                               \
    part[v] = ADD_WIDE(part[v], part[v + (half)])

PH__LEVEL_TARGET static void OF_LEVEL(sum_wide_row)(void *accumulators, const void *x, int64_t n,
                                                    int64_t index, double a)
{
    const float *xs = x;
    double *to = accumulators, lane[LANES];
    WIDE part[LANES / WIDTH];
    int64_t i = 0;
    (void)index, (void)a;
    for (int v = 0; v < LANES / WIDTH; v++)
        part[v] = ZERO_WIDE();
    for (; i + LANES <= n; i += LANES)
        for (int v = 0; v < LANES / WIDTH; v++)
            part[v] = ADD_WIDE(part[v], READ_WIDE(xs + i + v * WIDTH));
    if (i < n) {
        memcpy(lane, part, sizeof lane);
        for (int k = 0; i + k < n; k++)
            lane[k] += (double)xs[i + k];
        memcpy(part, lane, sizeof lane);
    }
    if (LANES / WIDTH == 8)
        FOLD_WIDE(4);
    FOLD_WIDE(2);
    FOLD_WIDE(1);
    memcpy(lane, part, sizeof *part);
    if (WIDTH == 8)
        for (int k = 0; k < 4; k++)
            lane[k] += lane[k + 4];
    *to += (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

PH__LEVEL_TARGET static void OF_LEVEL(sum_wide_columns4)(void *accumulators, const void *x,
                                                         int64_t n, int64_t step, double a)
{
    const float *xs = x;
    double *to = accumulators;
    int64_t i = 0;
    (void)a;
    for (; i + WIDTH <= n; i += WIDTH) {
        WIDE sum;
        memcpy(&sum, to + i, sizeof sum);
        for (int k = 0; k < 4; k++)
            sum = ADD_WIDE(sum, READ_WIDE(xs + k * step + i));
        memcpy(to + i, &sum, sizeof sum);
    }
    for (; i < n; i++)
        for (int k = 0; k < 4; k++)
            to[i] += (double)xs[k * step + i];
}

static const ph__reduce_cores OF_LEVEL(sum_wide) = {
    .accumulator = sizeof(double),
    .start = WIDE_NAME(sum_start_f32, PH__LEVEL),
    .row = OF_LEVEL(sum_wide_row),
    .columns = WIDE_NAME(sum_columns_f32, PH__LEVEL),
    .columns4 = OF_LEVEL(sum_wide_columns4),
    .join = WIDE_NAME(sum_join_f32, PH__LEVEL),
    .end = WIDE_NAME(sum_end_f32, PH__LEVEL)};

#undef WIDE_NAME_
#undef WIDE_NAME
#undef OF_LEVEL
#undef FOLD_WIDE
#undef WIDE
#undef WIDTH
#undef READ_WIDE
#undef ADD_WIDE
#undef ZERO_WIDE
#undef PH__LEVEL
#undef PH__LEVEL_TARGET
