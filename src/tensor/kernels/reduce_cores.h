/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_cores.h: included once for each type that is computed in, by
 * reduce_cores.c: the loops of one row of reduce.def. T, TYPE_NAME; what the expressions are
 * made of. */
#define JOIN_NAMES_(a, b) a##_##b
#define JOIN_NAMES(a, b)  JOIN_NAMES_(a, b)
#define NAME(name, part)  JOIN_NAMES(name##_##part, TYPE_NAME)

/* A fixed number of sums side by side, which become one vector or a few. */
#define PH__REDUCE(name, dtypes, sum, part, start, value, join, end_value)                         \
    DTYPES_##dtypes(CORES, name, sum, start, value, join, end_value)
#define CORES(name, SUM, START, VALUE, JOIN, END)                                                  \
    static SUM_##SUM NAME(name, joined)(SUM_##SUM p, SUM_##SUM q)                                  \
    {                                                                                              \
        return (SUM_##SUM)(JOIN);                                                                  \
    }                                                                                              \
    static void NAME(name, start)(void *accumulators, const void *x, int64_t n, int64_t index,     \
                                  double a)                                                        \
    {                                                                                              \
        SUM_##SUM *to = accumulators;                                                              \
        (void)x, (void)index, (void)a;                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] = START;                                                                         \
    }                                                                                              \
    static void NAME(name, row)(void *accumulators, const void *x, int64_t n, int64_t index,       \
                                double a)                                                          \
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
    static void NAME(name, columns)(void *accumulators, const void *x, int64_t n, int64_t index,   \
                                    double a)                                                      \
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
    static void NAME(name, columns4)(void *accumulators, const void *x, int64_t n, int64_t step,   \
                                     double a)                                                     \
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
    static void NAME(name, join)(void *accumulators, const void *x, int64_t n, int64_t index,      \
                                 double a)                                                         \
    {                                                                                              \
        const SUM_##SUM *from = x;                                                                 \
        SUM_##SUM *to = accumulators;                                                              \
        (void)index, (void)a;                                                                      \
        for (int64_t i = 0; i < n; i++)                                                            \
            *to = NAME(name, joined)(*to, from[i]);                                                \
    }                                                                                              \
    static void NAME(name, end)(void *out, const void *accumulator, double a, double b)            \
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

/* ---- argmax ---- NaN is the largest; of those that tie the first. */
typedef struct NAME(best, type) {
    T value;
    int64_t index;
} NAME(best, type);

static bool NAME(argmax, beats)(T value, T best)
{
    return (value > best) | (IS_NAN(value) & !IS_NAN(best));
}

static void NAME(argmax, start)(void *accumulators, const void *x, int64_t n, int64_t index,
                                double a)
{
    NAME(best, type) *to = accumulators;
    (void)x, (void)index, (void)a;
    for (int64_t i = 0; i < n; i++)
        to[i] = (NAME(best, type)){LOWEST, INT64_MAX};
}

/* Equal values of a smaller index win, too: the very first element may be the lowest number. */
static void NAME(argmax, take)(NAME(best, type) * to, T value, int64_t index)
{
    bool ties = (value == to->value) | (IS_NAN(value) & IS_NAN(to->value));
    if (NAME(argmax, beats)(value, to->value) || (ties && index < to->index))
        *to = (NAME(best, type)){value, index};
}

/* The largest value first, which vectors can find, then its place. */
static void NAME(argmax, row)(void *accumulators, const void *x, int64_t n, int64_t index, double a)
{
    const T *xs = x;
    T largest = LOWEST;
    NAME(max, row)(&largest, x, n, index, a);
    for (int64_t i = 0; i < n; i++) {
        if ((xs[i] == largest) | (IS_NAN(xs[i]) & IS_NAN(largest))) {
            NAME(argmax, take)(accumulators, xs[i], index + i);
            return;
        }
    }
}

static void NAME(argmax, columns)(void *accumulators, const void *x, int64_t n, int64_t index,
                                  double a)
{
    const T *xs = x;
    (void)a;
    for (int64_t i = 0; i < n; i++)
        NAME(argmax, take)((NAME(best, type) *)accumulators + i, xs[i], index);
}

static void NAME(argmax, join)(void *accumulators, const void *x, int64_t n, int64_t index,
                               double a)
{
    const NAME(best, type) *from = x;
    (void)index, (void)a;
    for (int64_t i = 0; i < n; i++)
        NAME(argmax, take)(accumulators, from[i].value, from[i].index);
}

static void NAME(argmax, end)(void *out, const void *accumulator, double a, double b)
{
    (void)a, (void)b;
    *(int64_t *)out = ((const NAME(best, type) *)accumulator)->index;
}

static const ph__reduce_cores NAME(argmax, cores) = {.accumulator = sizeof(NAME(best, type)),
                                                     .start = NAME(argmax, start),
                                                     .row = NAME(argmax, row),
                                                     .columns = NAME(argmax, columns),
                                                     .join = NAME(argmax, join),
                                                     .end = NAME(argmax, end)};
