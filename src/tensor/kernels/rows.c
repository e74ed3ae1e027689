/* SPDX-License-Identifier: MIT */
/* tensor/kernels/rows.c: dense operands for kernels that step along rows, and pieces of rows on the
 * host. */
#include "tensor/kernels/rows.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_cores.h"
#include "tensor/kernels/math.h"

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

void ph__row_scale_float(float *x, int64_t n, float factor)
{
    ph__cores()[PH__CORE_mul_scalar][PH__CORE_F32](x, x, NULL, NULL, n, (ph__scalar){.f = factor},
                                                   (ph__scalar){.f = 0});
}

void ph__row_scale_double(double *x, int64_t n, double factor)
{
    ph__cores()[PH__CORE_mul_scalar][PH__CORE_F64](x, x, NULL, NULL, n, (ph__scalar){.f = factor},
                                                   (ph__scalar){.f = 0});
}

/* For each level of the processor's instructions; the order of sums is the same. The largest is
 * looked for in four vectors at once, as each look waits for the one before. */
#define ROW_LOOPS(REAL, level, target)                                                             \
    target static REAL most_##REAL##_##level(const REAL *x, int64_t n, REAL most)                  \
    {                                                                                              \
        REAL part[64];                                                                             \
        int64_t i = 0;                                                                             \
        for (int k = 0; k < 64; k++)                                                               \
            part[k] = most;                                                                        \
        for (; i + 64 <= n; i += 64)                                                               \
            for (int k = 0; k < 64; k++)                                                           \
                part[k] = x[i + k] > part[k] ? x[i + k] : part[k];                                 \
        for (int k = 0; k < 16; k++) {                                                             \
            REAL one = part[k] > part[k + 16] ? part[k] : part[k + 16];                            \
            REAL other = part[k + 32] > part[k + 48] ? part[k + 32] : part[k + 48];                \
            part[k] = one > other ? one : other;                                                   \
        }                                                                                          \
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
/* Exponentials of numbers that are not above 0; below the least normal number they are 0. */
#define ROW_EXPS(level, target, exp_within)                                                        \
    target static float exps_##level(float *y, const float *x, int64_t n, float most)              \
    {                                                                                              \
        PH__VECTOR_LOOP for (int64_t i = 0; i < n; i++)                                            \
        {                                                                                          \
            const float d = x[i] - most, e = exp_within(d);                                        \
            y[i] = d < -87.0f ? 0.0f : e;                                                          \
        }                                                                                          \
        return sum_float_##level(y, n);                                                            \
    }
ROW_LOOPS(float, base, )
ROW_LOOPS(double, base, )
ROW_EXPS(base, , ph__exp_within)
#if defined(__x86_64__)
ROW_LOOPS(float, avx2, __attribute__((target("avx2"))))
ROW_LOOPS(double, avx2, __attribute__((target("avx2"))))
ROW_LOOPS(float, avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2"))))
ROW_LOOPS(double, avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2"))))
ROW_EXPS(avx2, __attribute__((target("avx2,fma"))), ph__fma_exp_within)
ROW_EXPS(avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))),
         ph__fma_exp_within)
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

float ph__row_exps_float(float *y, const float *x, int64_t n, float most)
{
    return BEST(exps, y, x, n, most);
}

double ph__row_exps_double(double *y, const double *x, int64_t n, double most)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] - most;
    ph__exps_double(y, n);
    return BEST(sum_double, y, n);
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
