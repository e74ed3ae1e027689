/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_loops.h: included once for each type that is computed in, by
 * reduce_cores.c: the loops of one row of reduce.def. T, TYPE_NAME; what the expressions are
 * made of. */

/* A fixed number of sums side by side, which become one vector or a few. */
#define PH__REDUCE(name, dtypes, sum, part, start, value, join, end_value)                         \
    DTYPES_##dtypes(CORES, name, sum, start, value, join, end_value)
#define CORES(name, SUM, START, VALUE, JOIN, END)                                                  \
    PH__LEVEL_TARGET static SUM_##SUM NAME(name, joined)(SUM_##SUM p, SUM_##SUM q)                 \
    {                                                                                              \
        return (SUM_##SUM)(JOIN);                                                                  \
    }                                                                                              \
    PH__LEVEL_TARGET static void NAME(name, start)(void *accumulators, const void *x, int64_t n,   \
                                                   int64_t index, double a)                        \
    {                                                                                              \
        SUM_##SUM *to = accumulators;                                                              \
        (void)x, (void)index, (void)a;                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] = START;                                                                         \
    }                                                                                              \
    PH__LEVEL_TARGET static void NAME(name, row)(void *accumulators, const void *x, int64_t n,     \
                                                 int64_t index, double a)                          \
    {                                                                                              \
        const T *xs = x;                                                                           \
        SUM_##SUM *to = accumulators, lane[LANES];                                                 \
        int64_t i = 0;                                                                             \
        (void)index, (void)a;                                                                      \
        for (int k = 0; k < LANES; k++)                                                            \
            lane[k] = START;                                                                       \
        for (; i + LANES <= n; i += LANES) {                                                       \
            for (int k = 0; k < LANES; k++) {                                                      \
                const T t = xs[i + k];                                                             \
                const SUM_##SUM p = lane[k], q = (SUM_##SUM)(VALUE);                               \
                lane[k] = (SUM_##SUM)(JOIN);                                                       \
            }                                                                                      \
        }                                                                                          \
        for (int k = 0; i + k < n; k++) {                                                          \
            const T t = xs[i + k];                                                                 \
            lane[k] = NAME(name, joined)(lane[k], (SUM_##SUM)(VALUE));                             \
        }                                                                                          \
        for (int width = LANES / 2; width > 0; width /= 2)                                         \
            for (int k = 0; k < width; k++)                                                        \
                lane[k] = NAME(name, joined)(lane[k], lane[k + width]);                            \
        *to = NAME(name, joined)(*to, lane[0]);                                                    \
    }                                                                                              \
    PH__LEVEL_TARGET static void NAME(name, columns)(void *accumulators, const void *x, int64_t n, \
                                                     int64_t index, double a)                      \
    {                                                                                              \
        const T *xs = x;                                                                           \
        SUM_##SUM *to = accumulators;                                                              \
        (void)index, (void)a;                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T t = xs[i];                                                                     \
            const SUM_##SUM p = to[i], q = (SUM_##SUM)(VALUE);                                     \
            to[i] = (SUM_##SUM)(JOIN);                                                             \
        }                                                                                          \
    }                                                                                              \
    PH__LEVEL_TARGET static void NAME(name, columns4)(void *accumulators, const void *x,           \
                                                      int64_t n, int64_t step, double a)           \
    {                                                                                              \
        const T *xs = x;                                                                           \
        SUM_##SUM *to = accumulators;                                                              \
        (void)a;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            SUM_##SUM sum = to[i];                                                                 \
            for (int k = 0; k < 4; k++) {                                                          \
                const T t = xs[k * step + i];                                                      \
                const SUM_##SUM p = sum, q = (SUM_##SUM)(VALUE);                                   \
                sum = (SUM_##SUM)(JOIN);                                                           \
            }                                                                                      \
            to[i] = sum;                                                                           \
        }                                                                                          \
    }                                                                                              \
    PH__LEVEL_TARGET static void NAME(name, join)(void *accumulators, const void *x, int64_t n,    \
                                                  int64_t index, double a)                         \
    {                                                                                              \
        const SUM_##SUM *from = x;                                                                 \
        SUM_##SUM *to = accumulators;                                                              \
        (void)index, (void)a;                                                                      \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] = NAME(name, joined)(to[i], from[i]);                                            \
    }                                                                                              \
    PH__LEVEL_TARGET static void NAME(name, end)(void *out, const void *accumulator, double a,     \
                                                 double b)                                         \
    {                                                                                              \
        const SUM_##SUM p = *(const SUM_##SUM *)accumulator;                                       \
        (void)a, (void)b;                                                                          \
        *(END_##SUM *)out = (END_##SUM)(END);                                                      \
    }                                                                                              \
    static const ph__reduce_cores NAME(name, cores) = {.accumulator = sizeof(SUM_##SUM),           \
                                                       .start = NAME(name, start),                 \
                                                       .row = NAME(name, row),                     \
                                                       .columns = NAME(name, columns),             \
                                                       .columns4 = NAME(name, columns4),           \
                                                       .join = NAME(name, join),                   \
                                                       .end = NAME(name, end)};
#include "tensor/kernels/reduce.def"
#undef PH__REDUCE
#undef CORES
