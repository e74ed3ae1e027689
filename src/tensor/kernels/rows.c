/* SPDX-License-Identifier: MIT */
/* tensor/kernels/rows.c: dense operands for kernels that step along rows, and pieces of rows on the
 * host. */
#include "tensor/kernels/rows.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_cores.h"

/* The loops of the element-wise operators, which are there for each level of the processor's
 * instructions. */
static void run_core(int core, int type, void *out, const void *x, int64_t n)
{
    const ph__scalar none = {.i = 0};
    ph__cores()[core][type](out, x, NULL, NULL, n, none, none);
}

void ph__exps_float(float *x, int64_t n)
{
    run_core(PH__CORE_exp, PH__CORE_F32, x, x, n);
}

void ph__exps_double(double *x, int64_t n)
{
    run_core(PH__CORE_exp, PH__CORE_F64, x, x, n);
}

#define ROW_ARITHMETIC(REAL, type)                                                                 \
    void ph__row_add_##REAL(REAL *y, const REAL *x, int64_t n, REAL b)                             \
    {                                                                                              \
        ph__cores()[PH__CORE_add_scalar][type](y, x, NULL, NULL, n, (ph__scalar){.f = b},          \
                                               (ph__scalar){.f = 0});                              \
    }                                                                                              \
    void ph__row_scale_##REAL(REAL *x, int64_t n, REAL factor)                                     \
    {                                                                                              \
        ph__cores()[PH__CORE_mul_scalar][type](x, x, NULL, NULL, n, (ph__scalar){.f = factor},     \
                                               (ph__scalar){.f = 0});                              \
    }
ROW_ARITHMETIC(float, PH__CORE_F32)
ROW_ARITHMETIC(double, PH__CORE_F64)

/* For each level of the processor's instructions; the order is the same. */
#define ROW_LOOPS(REAL, level, target)                                                             \
    target static REAL most_##REAL##_##level(const REAL *x, int64_t n, REAL most)                  \
    {                                                                                              \
        REAL part[16];                                                                             \
        int64_t i = 0;                                                                             \
        for (int k = 0; k < 16; k++)                                                               \
            part[k] = most;                                                                        \
        for (; i + 16 <= n; i += 16)                                                               \
            for (int k = 0; k < 16; k++)                                                           \
                part[k] = x[i + k] > part[k] ? x[i + k] : part[k];                                 \
        for (int k = 0; i < n; i++, k++)                                                           \
            part[k] = x[i] > part[k] ? x[i] : part[k];                                             \
        for (int k = 0; k < 16; k++)                                                               \
            most = part[k] > most ? part[k] : most;                                                \
        return most;                                                                               \
    }                                                                                              \
    target static REAL sum_##REAL##_##level(const REAL *x, int64_t n)                              \
    {                                                                                              \
        REAL part[16] = {0};                                                                       \
        int64_t i = 0;                                                                             \
        for (; i + 16 <= n; i += 16)                                                               \
            for (int k = 0; k < 16; k++)                                                           \
                part[k] += x[i + k];                                                               \
        for (int k = 0; i < n; i++, k++)                                                           \
            part[k] += x[i];                                                                       \
        return ph__fold_##REAL(part);                                                              \
    }
ROW_LOOPS(float, base, )
ROW_LOOPS(double, base, )
#if defined(__x86_64__)
ROW_LOOPS(float, avx2, __attribute__((target("avx2"))))
ROW_LOOPS(double, avx2, __attribute__((target("avx2"))))
ROW_LOOPS(float, avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2"))))
ROW_LOOPS(double, avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2"))))
#define BEST(name, ...)                                                                            \
    (ph__core_level() == PH__CORE_AVX512 ? name##_avx512(__VA_ARGS__)                              \
     : ph__core_level() == PH__CORE_AVX2 ? name##_avx2(__VA_ARGS__)                                \
                                         : name##_base(__VA_ARGS__))
#else
#define BEST(name, ...) name##_base(__VA_ARGS__)
#endif

float ph__row_most_float(const float *x, int64_t n, float most)
{
    return BEST(most_float, x, n, most);
}

double ph__row_most_double(const double *x, int64_t n, double most)
{
    return BEST(most_double, x, n, most);
}

float ph__row_sum_float(const float *x, int64_t n)
{
    return BEST(sum_float, x, n);
}

double ph__row_sum_double(const double *x, int64_t n)
{
    return BEST(sum_double, x, n);
}

void ph__halves_get(ph_dtype dtype, float *out, const uint16_t *half, int64_t n)
{
    run_core(PH__CORE_HALF, dtype == PH_DTYPE_F16 ? 0 : 2, out, half, n);
}

void ph__halves_put(ph_dtype dtype, uint16_t *half, const float *x, int64_t n)
{
    run_core(PH__CORE_HALF, dtype == PH_DTYPE_F16 ? 1 : 3, half, x, n);
}

int64_t ph__shape_product(const ph_shape *shape, size_t first, size_t last)
{
    int64_t count = 1;
    for (size_t i = first; i < last; i++)
        count *= shape->dim[i];
    return count;
}
