/* SPDX-License-Identifier: MIT */
/* tensor/random_kernels.h: the kernels that fill tensors with random numbers. */
#ifndef PH_TENSOR_RANDOM_KERNELS_H
#define PH_TENSOR_RANDOM_KERNELS_H
#include "tensor/philox.h"

/* Of floats. How a and b are meant: cuda/draws.cu. */
typedef enum ph__distribution {
    PH__UNIFORM,
    PH__NORMAL,
    PH__EXPONENTIAL,
    PH__CAUCHY,
    PH__GEOMETRIC,
    PH__LOG_NORMAL,
    PH__DISTRIBUTIONS
} ph__distribution;
typedef struct ph__fill_args {
    void *out;
    PH__DRAW_MEMBERS;
    uint64_t count;
    double a, b;
} ph__fill_args;
ph__kernel_def *ph__fill_kernel(ph__distribution distribution, ph_dtype dtype); /* NULL: no float */

/* `one` where word < threshold (of 2^32), else 0: bits of any dtype. */
typedef struct ph__events_args {
    void *out;
    PH__DRAW_MEMBERS;
    uint64_t count, threshold, one;
} ph__events_args;
ph__kernel_def *ph__events_kernel(ph_dtype dtype);

/* 1 with probability p[i]. */
typedef struct ph__bernoulli_args {
    void *out;
    const void *p;
    PH__DRAW_MEMBERS;
    uint64_t count;
} ph__bernoulli_args;
ph__kernel_def *ph__bernoulli_kernel(ph_dtype dtype); /* NULL: no float */

/* low + [0, range), modulo the dtype's size. */
typedef struct ph__integers_args {
    void *out;
    PH__DRAW_MEMBERS;
    uint64_t count, low, range;
} ph__integers_args;
ph__kernel_def *ph__integers_kernel(ph_dtype dtype); /* NULL: none of i32, i64, u8 */
#endif
