/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_cores.c: the loops of elementwise.def and of casts, for each level of
 * instructions, and which level this processor has. */

/* Where there is no vector form: libm's functions, divisions of integers. Before the includes:
 * with -g clang places what it says at the first inclusion of elementwise.def. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

#include "tensor/kernels/elementwise_cores.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/math.h"
#include <math.h>
#include <stdatomic.h>

/* By 0: 0. The smallest number by -1 is itself. */
PH__MATH int32_t divide_i32(int32_t p, int32_t q)
{
    return q == 0 ? 0 : q == -1 ? (int32_t)(0u - (uint32_t)p) : p / q;
}

PH__MATH int64_t divide_i64(int64_t p, int64_t q)
{
    return q == 0 ? 0 : q == -1 ? (int64_t)(0u - (uint64_t)p) : p / q;
}

/* Cut towards 0, saturating; NaN is 0. */
PH__MATH int32_t to_i32(double x)
{
    double y = x != x ? 0 : x < -0x1p31 ? -0x1p31 : x;
    return (int32_t)(y > 0x1.fffffffcp30 ? 0x1.fffffffcp30 : y);
}

PH__MATH int64_t to_i64(double x)
{
    double y = x != x ? 0 : x < -0x1p63 ? -0x1p63 : x;
    return y >= 0x1p63 ? INT64_MAX : (int64_t)y;
}

PH__MATH uint8_t to_u8(double x)
{
    double y = x > 0 ? x : 0;
    return (uint8_t)(int32_t)(y > 255 ? 255 : y);
}

#define PH__LEVEL base
#define PH__LEVEL_TARGET
#define PH__LEVEL_MATH(name) ph__##name
#include "tensor/kernels/elementwise_level.h"

#if defined(__x86_64__)
#define PH__LEVEL            avx2
#define PH__LEVEL_TARGET     __attribute__((target("avx2,fma")))
#define PH__LEVEL_MATH(name) ph__fma_##name
#include "tensor/kernels/elementwise_level.h"

#define PH__LEVEL            avx512
#define PH__LEVEL_TARGET     __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define PH__LEVEL_MATH(name) ph__fma_##name
#include "tensor/kernels/elementwise_level.h"

static ph__core_level_number best_level(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return PH__CORE_AVX512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? PH__CORE_AVX2
                                                                           : PH__CORE_BASE;
}

/* Every thread finds the same. */
ph__core_level_number ph__core_level(void)
{
    static atomic_int known;
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (__builtin_expect(level == 0, 0))
        atomic_store_explicit(&known, level = (int)best_level(), memory_order_relaxed);
    return (ph__core_level_number)level;
}

ph__core_table ph__cores(void)
{
    switch (ph__core_level()) {
    case PH__CORE_AVX512:
        return ph__cores_avx512;
    case PH__CORE_AVX2:
        return ph__cores_avx2;
    default:
        return ph__cores_base;
    }
}
#else
ph__core_level_number ph__core_level(void)
{
    return PH__CORE_BASE;
}

ph__core_table ph__cores(void)
{
    return ph__cores_base;
}
#endif
