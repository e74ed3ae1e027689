/* SPDX-License-Identifier: MIT */
/* tensor/kernels/rows.h: for operators along rows: dense operands, kernels by dtype, rows. */
#ifndef PH_TENSOR_KERNELS_ROWS_H
#define PH_TENSOR_KERNELS_ROWS_H
#include "base/half.h"
#include "tensor/backend/texts.h"
#include "tensor/tape/op.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* Of the dimensions [first, last). */
int64_t ph__shape_product(const ph_shape *shape, size_t first, size_t last);
static inline bool ph__dtype_is_index(ph_dtype dtype)
{
    return dtype == PH_DTYPE_I32 || dtype == PH_DTYPE_I64;
}
/* The dtype in which f16 and bf16 are computed; for others the dtype itself. */
static inline ph_dtype ph__compute_dtype(ph_dtype dtype)
{
    return dtype == PH_DTYPE_F16 || dtype == PH_DTYPE_BF16 ? PH_DTYPE_F32 : dtype;
}
/* Element i of an index tensor's memory. */
static inline int64_t ph__index_at(const void *index, bool wide, int64_t i)
{
    return wide ? ((const int64_t *)index)[i] : ((const int32_t *)index)[i];
}
static inline int64_t ph__ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* ---- a kernel for each floating dtype ---- in the order of their numbers, so that defs[dtype -
 * PH_DTYPE_F32] is the one. kernel is its name here and, with ph_ and the dtype around it, on a
 * GPU; flags are lines of #define; its host forms are form_float and form_double, which take
 * (range, args, dtype) and may be those of several kernels. */
#define PH__ROWS_HOST(kernel, form, dtype, number)                                                 \
    static void kernel##_##dtype(const ph_block_range *range, const void *args)                    \
    {                                                                                              \
        form(range, args, number);                                                                 \
    }
#define PH__ROWS_DEF(kernel, dtype, text, flags, args, parameters)                                 \
    {                                                                                              \
        .name = "ph_" #kernel "_" #dtype,                                                          \
        .cuda = (const char *const[]){"#define T " #dtype "\n#define KERNEL ph_" #kernel           \
                                      "_" #dtype "\n" flags,                                       \
                                      ph__text_rows, text, NULL},                                  \
        .host = kernel##_##dtype, .args_size = sizeof(args), .params = parameters,                 \
        .param_count = sizeof parameters / sizeof parameters[0]                                    \
    }
#define PH__ROWS_KERNELS(kernel, form, text, flags, args, parameters)                              \
    PH__ROWS_HOST(kernel, form##_float, f32, PH_DTYPE_F32)                                         \
    PH__ROWS_HOST(kernel, form##_double, f64, PH_DTYPE_F64)                                        \
    PH__ROWS_HOST(kernel, form##_float, f16, PH_DTYPE_F16)                                         \
    PH__ROWS_HOST(kernel, form##_float, bf16, PH_DTYPE_BF16)                                       \
    static ph__kernel_def kernel[4] = {PH__ROWS_DEF(kernel, f32, text, flags, args, parameters),   \
                                       PH__ROWS_DEF(kernel, f64, text, flags, args, parameters),   \
                                       PH__ROWS_DEF(kernel, f16, text, flags, args, parameters),   \
                                       PH__ROWS_DEF(kernel, bf16, text, flags, args, parameters)};
/* The same for half types alone, with a host form of its own. */
#define PH__ROWS_HALF_KERNELS(kernel, form, text, flags, args, parameters)                         \
    PH__ROWS_HOST(kernel, form, f16, PH_DTYPE_F16)                                                 \
    PH__ROWS_HOST(kernel, form, bf16, PH_DTYPE_BF16)                                               \
    static ph__kernel_def kernel[2] = {PH__ROWS_DEF(kernel, f16, text, flags, args, parameters),   \
                                       PH__ROWS_DEF(kernel, bf16, text, flags, args, parameters)};
#define PH__ROWS_HALF_LIST(kernel) &kernel[0], &kernel[1]
static inline ph__kernel_def *ph__rows_half_kernel(ph__kernel_def defs[2], ph_dtype dtype)
{
    return &defs[dtype - PH_DTYPE_F16];
}
#define PH__ROWS_LIST(kernel) &kernel[0], &kernel[1], &kernel[2], &kernel[3]
static inline ph__kernel_def *ph__rows_kernel(ph__kernel_def defs[4], ph_dtype dtype)
{
    return &defs[dtype - PH_DTYPE_F32];
}

/* ---- rows on the host ---- in pieces of at most PH__CHUNK elements. */
enum {
    PH__CHUNK = 256
};
/* In vectors, as far as there are: e to the x, x * factor in place; the largest of x and `most`
 * (NaN is none); y = e to the x - most, for no x above `most`, and its sum; half types. */
void ph__exps_float(float *x, int64_t n);
void ph__exps_double(double *x, int64_t n);
/* x * factor in place; the largest of x and `most` (NaN is none); y = e to the x - most, and the
 * sum of that, sixteen at a time, for no x above `most`. */
void ph__row_scale_float(float *x, int64_t n, float factor);
void ph__row_scale_double(double *x, int64_t n, double factor);
float ph__row_most_float(const float *x, int64_t n, float most);
double ph__row_most_double(const double *x, int64_t n, double most);
float ph__row_exps_float(float *y, const float *x, int64_t n, float most);
double ph__row_exps_double(double *y, const double *x, int64_t n, double most);
void ph__halves_get(ph_dtype dtype, float *out, const uint16_t *half, int64_t n);
void ph__halves_put(ph_dtype dtype, uint16_t *half, const float *x, int64_t n);
static inline bool ph__is_half(ph_dtype dtype)
{
    return dtype == PH_DTYPE_F16 || dtype == PH_DTYPE_BF16;
}
/* Elements [at, at + n) of data, where they are or in buffer. */
static inline const float *ph__load_float(ph_dtype dtype, const void *data, int64_t at, int64_t n,
                                          float *buffer)
{
    if (!ph__is_half(dtype))
        return (const float *)data + at;
    ph__halves_get(dtype, buffer, (const uint16_t *)data + at, n);
    return buffer;
}
static inline const double *ph__load_double(ph_dtype dtype, const void *data, int64_t at, int64_t n,
                                            double *buffer)
{
    (void)dtype, (void)n, (void)buffer;
    return (const double *)data + at;
}
/* Where results for those elements are written; stored moves them there from the buffer. */
static inline float *ph__place_float(ph_dtype dtype, void *data, int64_t at, float *buffer)
{
    return ph__is_half(dtype) ? buffer : (float *)data + at;
}
static inline double *ph__place_double(ph_dtype dtype, void *data, int64_t at, double *buffer)
{
    (void)dtype, (void)buffer;
    return (double *)data + at;
}
static inline void ph__stored_float(ph_dtype dtype, void *data, int64_t at, int64_t n,
                                    const float *buffer)
{
    if (ph__is_half(dtype))
        ph__halves_put(dtype, (uint16_t *)data + at, buffer, n);
}
static inline void ph__stored_double(ph_dtype dtype, void *data, int64_t at, int64_t n,
                                     const double *buffer)
{
    (void)dtype, (void)data, (void)at, (void)n, (void)buffer;
}

#define REAL     float
#define OF(name) name##_float
#define LOWEST   (-FLT_MAX)
#include "tensor/kernels/rows_real.h"
#undef REAL
#undef OF
#undef LOWEST
#define REAL     double
#define OF(name) name##_double
#define LOWEST   (-DBL_MAX)
#include "tensor/kernels/rows_real.h"
#undef REAL
#undef OF
#undef LOWEST
#endif
