/* SPDX-License-Identifier: MIT */
/* bench/clock.h: the clock of all benchmarks in C, and its samples in order. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H
#include <stdlib.h>
#include <time.h>

static inline double clock_now(void) /* nanoseconds */
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static inline int clock_compare(const void *a, const void *b)
{
    const double *x = (const double *)a, *y = (const double *)b;
    return *x < *y ? -1 : *x > *y;
}

static inline void clock_sort(double values[], int count)
{
    qsort(values, (size_t)count, sizeof values[0], clock_compare);
}
#endif
