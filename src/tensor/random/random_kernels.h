/* SPDX-License-Identifier: MIT */
/* tensor/random/random_kernels.h: the kernels that fill tensors with random numbers. */
#ifndef PH_TENSOR_RANDOM_RANDOM_KERNELS_H
#define PH_TENSOR_RANDOM_RANDOM_KERNELS_H
#include "tensor/backend/kernels.h"
#include "tensor/random/philox.h"

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

/* `one` with probability p[i], else 0: bits of any dtype. */
typedef struct ph__bernoulli_args {
    void *out;
    const void *p;
    PH__DRAW_MEMBERS;
    uint64_t count, one;
} ph__bernoulli_args;
ph__kernel_def *ph__bernoulli_kernel(ph_dtype p, ph_dtype out); /* NULL: p is no float */

/* low + [0, range), modulo the dtype's size; of floats numbers that they have. */
typedef struct ph__integers_args {
    void *out;
    PH__DRAW_MEMBERS;
    uint64_t count, low, range;
} ph__integers_args;
ph__kernel_def *ph__integers_kernel(ph_dtype dtype);

/* mean[i] + deviation[i] * a standard normal; deviation NULL: 1. */
typedef struct ph__normal_of_args {
    void *out;
    const void *mean, *deviation;
    PH__DRAW_MEMBERS;
    uint64_t count;
} ph__normal_of_args;
ph__kernel_def *ph__normal_of_kernel(ph_dtype dtype); /* NULL: no float */

typedef struct ph__poisson_args {
    void *out;
    const void *rates;
    PH__DRAW_MEMBERS;
    uint64_t count;
} ph__poisson_args;
ph__kernel_def *ph__poisson_kernel(ph_dtype dtype); /* NULL: no float */
#endif
