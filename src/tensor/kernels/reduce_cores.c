/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_cores.c: the loops of reduce.def and of argmax over arrays, for each
 * type that is computed in. */
#include "tensor/kernels/reduce_cores.h"
#include "tensor/kernels/math.h"
#include "tensor/kernels/reduce.h"
#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    /* accumulators side by side in a row: a fixed order of joining, which vectors of any width
     * keep */
    LANES = 32
};

#define PH__LEVEL base
#define PH__LEVEL_TARGET
#include "tensor/kernels/reduce_level.h"

#include "tensor/kernels/reduce_sum.h"

#if defined(__x86_64__)
#define PH__LEVEL        avx2
#define PH__LEVEL_TARGET __attribute__((target("avx2")))
#include "tensor/kernels/reduce_level.h"

#define PH__LEVEL        avx512
#define PH__LEVEL_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2")))
#include "tensor/kernels/reduce_level.h"

#define PH__LEVEL        avx2
#define PH__LEVEL_TARGET __attribute__((target("avx2")))
#define WIDE             __m256d
#define WIDTH            4
#define HAS_ROWS4        0
#define READ_WIDE(at)    _mm256_cvtps_pd(_mm_loadu_ps(at))
#define ADD_WIDE(p, q)   _mm256_add_pd(p, q)
#define ZERO_WIDE()      _mm256_setzero_pd()
#define NARROW           __m256
#define IN_VECTOR        "x"
#define READ(at)         _mm256_loadu_ps(at)
#define ADD_NARROW(p, q) _mm256_add_ps(p, q)
#define WIDEN_LOW(t)     _mm256_cvtps_pd(_mm256_castps256_ps128(t))
#define WIDEN_HIGH(t)    _mm256_cvtps_pd(_mm256_extractf128_ps(t, 1))
/* t - t is 0, or NaN where t is not finite */
#define ALL_FINITE(t)                                                                              \
    (_mm256_movemask_ps(_mm256_cmp_ps(_mm256_sub_ps(t, t), _mm256_setzero_ps(), _CMP_NEQ_UQ)) == 0)
#include "tensor/kernels/reduce_wide.h"

#define PH__LEVEL        avx512
#define PH__LEVEL_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2")))
#define WIDE             __m512d
#define WIDTH            8
#define HAS_ROWS4        1
#define READ_WIDE(at)    _mm512_cvtps_pd(_mm256_loadu_ps(at))
#define ADD_WIDE(p, q)   _mm512_add_pd(p, q)
#define ZERO_WIDE()      _mm512_setzero_pd()
#define NARROW           __m512
#define IN_VECTOR        "v"
#define READ(at)         _mm512_loadu_ps(at)
#define ADD_NARROW(p, q) _mm512_add_ps(p, q)
#define WIDEN_LOW(t)     _mm512_cvtps_pd(_mm512_castps512_ps256(t))
#define WIDEN_HIGH(t)    _mm512_cvtps_pd(_mm512_extractf32x8_ps(t, 1))
/* classes: quiet NaN, infinities, signalling NaN */
#define ALL_FINITE(t) (_mm512_fpclass_ps_mask(t, 0x01 | 0x08 | 0x10 | 0x80) == 0)
#include "tensor/kernels/reduce_wide.h"

const ph__reduce_cores *ph__reduce_cores_at(ph__core_level_number level, unsigned reduction,
                                            unsigned type)
{
    const bool sums = reduction == PH__REDUCE_sum && type == PH__CORE_F32;
    switch (level) {
    case PH__CORE_AVX512:
        return sums ? &sum_wide_avx512 : ph__reduce_avx512[reduction][type];
    case PH__CORE_AVX2:
        return sums ? &sum_wide_avx2 : ph__reduce_avx2[reduction][type];
    default:
        return sums ? &sum_f32_base : ph__reduce_base[reduction][type];
    }
}
#else
const ph__reduce_cores *ph__reduce_cores_at(ph__core_level_number level, unsigned reduction,
                                            unsigned type)
{
    const bool sums = reduction == PH__REDUCE_sum && type == PH__CORE_F32;
    (void)level;
    return sums ? &sum_f32_base : ph__reduce_base[reduction][type];
}
#endif

const ph__reduce_cores *ph__reduce_cores_of(unsigned reduction, unsigned type)
{
    return ph__reduce_cores_at(ph__core_level(), reduction, type);
}
