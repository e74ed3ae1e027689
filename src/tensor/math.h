/* SPDX-License-Identifier: MIT */
/* tensor/math.h: functions of one f32 for host kernels: branch-free, so that loops over them become vector code.
 *
 * Errors against the exact value, over all floats (tests/tensor/elementwise_math.c looks): ph__expf and ph__logf at most 1 ulp, ph__tanhf
 * 1.5, ph__sigmoidf 2.5, ph__erff 3. Infinities, NaN, signed zeros and subnormal numbers are as in C's own. The polynomials
 * are minimax ones, made for these ranges. The compiler must not reassociate (-ffast-math), or the sums of two parts are lost. */
#ifndef PH_TENSOR_MATH_H
#define PH_TENSOR_MATH_H
#include "tensor/half.h"

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
    return ph__float_of_bits((ph__bits_of_float(x) & 0x7fffffffu) | (ph__bits_of_float(sign) & 0x80000000u));
}

/* 2^n in two factors, so that results may be subnormal or overflow. */
PH__MATH float ph__expf(float x)
{
    const float whole = 0x1.8p23f; /* adding it rounds to an integer */
    float y = x < -104.0f ? -104.0f : x;
    y = y > 89.0f ? 89.0f : y;
    float shifted = y * 0x1.715476p+0f + whole;
    float n = shifted - whole;
    /* ln 2 in two parts, the first with so few digits that n times it is exact. */
    float r = (y - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
    float q = 0.00138131448f * r + 0.00836941882f;
    q = q * r + 0.0416684568f;
    q = q * r + 0.166665148f;
    q = q * r + 0.499999931f;
    float p = 1.0f + (r + r * r * q);
    uint32_t k = ph__bits_of_float(shifted) - ph__bits_of_float(whole);
    uint32_t half = (k >> 1) | (k & 0x80000000u);
    float first = ph__float_of_bits((half + 127u) << 23);
    float second = ph__float_of_bits((k - half + 127u) << 23);
    return p * first * second;
}

PH__MATH float ph__logf(float x)
{
    const uint32_t root = 0x3f3504f3u; /* of 1/2: mantissas are taken from there to twice that */
    float small = x < 0x1p-126f ? 0x1p23f : 1.0f;
    uint32_t bits = ph__bits_of_float(x * small) + (0x3f800000u - root);
    float e = (float)((int32_t)(bits >> 23) - 127) - (small == 1.0f ? 0.0f : 23.0f);
    float f = ph__float_of_bits((bits & 0x7fffffu) + root) - 1.0f;
    float q = 0.0674659467f * f - 0.116756408f;
    q = q * f + 0.118881773f;
    q = q * f - 0.124055916f;
    q = q * f + 0.142195505f;
    q = q * f - 0.166679957f;
    q = q * f + 0.200021188f;
    q = q * f - 0.250000096f;
    q = q * f + 0.333333126f;
    float ff = f * f;
    float low = (ff * f * q + e * 0x1.0bfbe8p-15f) - 0.5f * ff;
    float y = e * 0x1.62ep-1f + (f + low);
    y = x == 0.0f ? -__builtin_inff() : y;
    y = x == __builtin_inff() ? x : y;
    return x < 0.0f ? __builtin_nanf("") : x == x ? y : x;
}

PH__MATH float ph__tanhf(float x)
{
    float a = ph__absf(x), s = x * x;
    float q = -0.00545350412f * s + 0.0204129254f;
    q = q * s - 0.0536705384f;
    q = q * s + 0.133306229f;
    q = q * s - 0.333332525f;
    float small = x + x * s * q;
    float large = 1.0f - 2.0f / (ph__expf(2.0f * a) + 1.0f);
    return ph__copysignf(a < 0.625f ? small : large, x);
}

/* Beyond 4 it is 1 in f32. */
PH__MATH float ph__erff(float x)
{
    float a = ph__absf(x), s = x * x;
    float p = -0.000609035812f * s + 0.00501196238f;
    p = p * s - 0.0267789085f;
    p = p * s + 0.112821408f;
    p = p * s - 0.376125233f;
    p = p * s + 1.12837915f;
    float b = a > 4.0f ? 4.0f : a;
    float q = 0.000203549048f * b - 0.00311689669f;
    q = q * b + 0.0225164319f;
    q = q * b - 0.104522955f;
    q = q * b - 0.636519592f;
    q = q * b - 1.12806216f;
    q = q * b - 0.000103899352f;
    float large = ph__copysignf(1.0f - ph__expf(q), x);
    return a < 0.85f ? x * p : large;
}

PH__MATH float ph__sigmoidf(float x)
{
    float e = ph__expf(-ph__absf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* f64 to f32 such that a second rounding, to f16 or bf16, gives what one rounding would have: what is cut off is kept as a last bit of 1. */
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
