/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_wide.h: included by reduce_cores.c for each level of vectors: the loops of
 * `sum` over f32, in the order of reduce_sum.h, to the bit.
 * - WIDE: a vector of f64, of WIDTH elements; READ_WIDE, ADD_WIDE, ZERO_WIDE.
 * - NARROW: a vector of f32, of twice as many; IN_VECTOR: the letter of assembly for where it is;
 *   READ, ADD_NARROW; WIDEN_LOW, WIDEN_HIGH: its halves in f64; ALL_FINITE: whether all of its
 *   elements are.
 * - HAS_ROWS4: whether there are registers enough for the lanes of four rows. */
#define WIDE_NAME_(name, level) name##_##level
#define WIDE_NAME(name, level)  WIDE_NAME_(name, level)
#define OF_LEVEL(name)          WIDE_NAME(name, PH__LEVEL)

/* Of eight vectors, `step` elements from one to the next. They are read in this order: the compiler
 * would begin with the last, and what the processor fetches ahead of its reads goes upwards. */
PH__LEVEL_TARGET static inline NARROW OF_LEVEL(sum_eight)(const float *x, int64_t step)
{
    NARROW t[8];
    for (int k = 0; k < 8; k++) {
        t[k] = READ(x + k * step);
        __asm__ volatile("" : "+" IN_VECTOR(t[k]));
    }
    return ADD_NARROW(ADD_NARROW(ADD_NARROW(t[0], t[1]), ADD_NARROW(t[2], t[3])),
                      ADD_NARROW(ADD_NARROW(t[4], t[5]), ADD_NARROW(t[6], t[7])));
}

#include "tensor/kernels/reduce_wide_rows.h"

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

PH__LEVEL_TARGET static void OF_LEVEL(sum_wide_columns8)(void *accumulators, const void *x,
                                                         int64_t n, int64_t step, double a)
{
    const float *xs = x;
    double *to = accumulators;
    int64_t i = 0;
    (void)a;
    for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) {
        const NARROW t = OF_LEVEL(sum_eight)(xs + i, step);
        WIDE part[2];
        if (__builtin_expect(!ALL_FINITE(t), 0)) {
            for (int k = 0; k < 2 * WIDTH; k++)
                to[i + k] += sum_eight_in_column(xs + i + k, step);
            continue;
        }
        memcpy(part, to + i, sizeof part);
        part[0] = ADD_WIDE(part[0], WIDEN_LOW(t));
        part[1] = ADD_WIDE(part[1], WIDEN_HIGH(t));
        memcpy(to + i, part, sizeof part);
    }
    for (; i < n; i++)
        to[i] += sum_eight_in_column(xs + i, step);
}

static const ph__reduce_cores OF_LEVEL(sum_wide) = {
    .accumulator = sizeof(double),
    .start = WIDE_NAME(sum_start_f32, PH__LEVEL),
    .row = OF_LEVEL(sum_wide_row),
#if HAS_ROWS4
    .rows4 = OF_LEVEL(sum_wide_rows4),
#endif
    .columns = WIDE_NAME(sum_columns_f32, PH__LEVEL),
    .columns4 = OF_LEVEL(sum_wide_columns4),
    .columns8 = OF_LEVEL(sum_wide_columns8),
    .join = WIDE_NAME(sum_join_f32, PH__LEVEL),
    .end = WIDE_NAME(sum_end_f32, PH__LEVEL)};

#undef WIDE_NAME_
#undef WIDE_NAME
#undef OF_LEVEL
#undef WIDE
#undef WIDTH
#undef READ_WIDE
#undef ADD_WIDE
#undef ZERO_WIDE
#undef NARROW
#undef IN_VECTOR
#undef READ
#undef ADD_NARROW
#undef WIDEN_LOW
#undef WIDEN_HIGH
#undef ALL_FINITE
#undef HAS_ROWS4
#undef PH__LEVEL
#undef PH__LEVEL_TARGET
