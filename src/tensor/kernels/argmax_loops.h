/* SPDX-License-Identifier: MIT */
/* tensor/kernels/argmax_loops.h: included by reduce_cores.c once for each type that is computed
 * in, behind reduce_loops.h: where the largest element of a row is. NaN is the largest; of those
 * that tie the first. */
typedef struct NAME(best, type) {
    T value;
    int64_t index;
} NAME(best, type);

PH__LEVEL_TARGET static bool NAME(argmax, beats)(T value, T best)
{
    return (value > best) | (IS_NAN(value) & !IS_NAN(best));
}

PH__LEVEL_TARGET static void NAME(argmax, start)(void *accumulators, const void *x, int64_t n,
                                                 int64_t index, double a)
{
    NAME(best, type) *to = accumulators;
    (void)x, (void)index, (void)a;
    for (int64_t i = 0; i < n; i++)
        to[i] = (NAME(best, type)){LOWEST, INT64_MAX};
}

/* Equal values of a smaller index win, too: the very first element may be the lowest number. */
PH__LEVEL_TARGET static void NAME(argmax, update)(NAME(best, type) * to, T value, int64_t index)
{
    bool ties = (value == to->value) | (IS_NAN(value) & IS_NAN(to->value));
    if (NAME(argmax, beats)(value, to->value) || (ties && index < to->index))
        *to = (NAME(best, type)){value, index};
}

/* The largest value first, which vectors can find, then its place. */
PH__LEVEL_TARGET static void NAME(argmax, row)(void *accumulators, const void *x, int64_t n,
                                               int64_t index, double a)
{
    const T *xs = x;
    T largest = LOWEST;
    NAME(max, row)(&largest, x, n, index, a);
    for (int64_t i = 0; i < n; i++) {
        if ((xs[i] == largest) | (IS_NAN(xs[i]) & IS_NAN(largest))) {
            NAME(argmax, update)(accumulators, xs[i], index + i);
            return;
        }
    }
}

PH__LEVEL_TARGET static void NAME(argmax, columns)(void *accumulators, const void *x, int64_t n,
                                                   int64_t index, double a)
{
    const T *xs = x;
    (void)a;
    for (int64_t i = 0; i < n; i++)
        NAME(argmax, update)((NAME(best, type) *)accumulators + i, xs[i], index);
}

PH__LEVEL_TARGET static void NAME(argmax, join)(void *accumulators, const void *x, int64_t n,
                                                int64_t index, double a)
{
    const NAME(best, type) *from = x;
    NAME(best, type) *to = accumulators;
    (void)index, (void)a;
    for (int64_t i = 0; i < n; i++)
        NAME(argmax, update)(&to[i], from[i].value, from[i].index);
}

PH__LEVEL_TARGET static void NAME(argmax, end)(void *out, const void *accumulator, double a,
                                               double b)
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
