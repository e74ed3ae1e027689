/* SPDX-License-Identifier: MIT */
/* tensor/kernels/math.h: functions of one f32 for host kernels: branch-free, so that loops over
 * them become vector code.
 *
 * Errors against the exact value, over all floats (tests/tensor/elementwise_math.c looks):
 * ph__expf and ph__logf at most 1 ulp, ph__tanhf 1.5, ph__sigmoidf 2.5, ph__erff 3; of
 * ph__normal_cdff at most 2^-23, not relative to the value. Infinities,
 * NaN, signed zeros and subnormal numbers are as in C's own. The polynomials are minimax ones,
 * made for these ranges. The compiler must not reassociate (-ffast-math), or the sums of two
 * parts are lost. */
#ifndef PH_TENSOR_KERNELS_MATH_H
#define PH_TENSOR_KERNELS_MATH_H
#include "base/half.h"

#define PH__MATH static inline __attribute__((always_inline))

/* A loop whose turns do not depend on each other, though its arrays may be the same one. */
#if defined(__clang__)
#define PH__VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define PH__VECTOR_LOOP _Pragma("GCC ivdep")
#endif

PH__MATH float ph__absf(float x)
{
    return ph__float_of_bits(ph__bits_of_float(x) & 0x7fffffffu);
}

PH__MATH float ph__copysignf(float x, float sign)
{
    return ph__float_of_bits((ph__bits_of_float(x) & 0x7fffffffu) |
                             (ph__bits_of_float(sign) & 0x80000000u));
}

/* ph__expf(x), ph__logf, ph__tanhf, ph__sigmoidf, ph__normal_cdff, and ph__erff, which has no
 * fused form. */
#define PH__MATH_NAME(name)   ph__##name
#define PH__MATH_FMA(a, b, c) ((a) * (b) + (c))
#define PH__MATH_FUSED        0
#include "tensor/kernels/math_functions.h"
#undef PH__MATH_NAME
#undef PH__MATH_FMA
#undef PH__MATH_FUSED
/* ph__fma_expf(x) and so on: for functions whose target has fused instructions, which they say
 * by attribute. */
#define PH__MATH_NAME(name)   ph__fma_##name
#define PH__MATH_FMA(a, b, c) __builtin_fmaf(a, b, c)
#define PH__MATH_FUSED        1
#include "tensor/kernels/math_functions.h"
#undef PH__MATH_NAME
#undef PH__MATH_FMA
#undef PH__MATH_FUSED

/* f64 to f32 such that a second rounding, to f16 or bf16, gives what one rounding would have:
 * what is cut off is kept as a last bit of 1. */
PH__MATH float ph__to_odd(double x)
{
    float f = (float)x;
    double back = (double)f;
    uint32_t bits = ph__bits_of_float(f);
    double size = x < 0 ? -x : x, got = back < 0 ? -back : back;
    bits -= got > size && got <= 0x1.fffffep127 ? 1u : 0u;
    bits |= back != x && x == x ? 1u : 0u;
    /* Beyond all floats stays so: the bit would make an infinity a NaN. */
    return got > 0x1.fffffep127 ? f : ph__float_of_bits(bits);
}
#endif
