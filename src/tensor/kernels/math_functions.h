/* SPDX-License-Identifier: MIT */
/* tensor/kernels/math_functions.h: the functions that math.h tells of. Included once for each
 * way to multiply and add: PH__MATH_FMA(a, b, c) is a * b + c, rounded once or twice;
 * PH__MATH_NAME(name) the function's name; PH__MATH_FUSED: whether it is rounded once. */

/* e^y is 2^n times what is given, for -104 <= y <= 89. */
PH__MATH float PH__MATH_NAME(exp_parts)(float y, uint32_t *n_bits)
{
    const float whole = 0x1.8p23f; /* adding it rounds to an integer */
    float shifted = PH__MATH_FMA(y, 0x1.715476p+0f, whole);
    float n = shifted - whole;
    /* ln 2 in two parts, the first with so few digits that n times it is exact. */
    float r = PH__MATH_FMA(n, -0x1.0bfbe8p-15f, PH__MATH_FMA(n, -0x1.62ep-1f, y));
    float q = PH__MATH_FMA(0.00138131448f, r, 0.00836941882f);
    q = PH__MATH_FMA(q, r, 0.0416684568f);
    q = PH__MATH_FMA(q, r, 0.166665148f);
    q = PH__MATH_FMA(q, r, 0.499999931f);
    *n_bits = ph__bits_of_float(shifted) - ph__bits_of_float(whole);
    return 1.0f + PH__MATH_FMA(r * r, q, r);
}

/* As expf, for -87 <= x <= 88, where 2^n is a normal number: no bounds to look at, one factor. */
PH__MATH float PH__MATH_NAME(exp_within)(float x)
{
    uint32_t k;
    float p = PH__MATH_NAME(exp_parts)(x, &k);
    return p * ph__float_of_bits((k + 127u) << 23);
}

/* 2^n in two factors, so that results may be subnormal or overflow. */
PH__MATH float PH__MATH_NAME(expf)(float x)
{
    float y = x < -104.0f ? -104.0f : x;
    y = y > 89.0f ? 89.0f : y;
    uint32_t k;
    float p = PH__MATH_NAME(exp_parts)(y, &k);
    uint32_t half = (k >> 1) | (k & 0x80000000u);
    float first = ph__float_of_bits((half + 127u) << 23);
    float second = ph__float_of_bits((k - half + 127u) << 23);
    return p * first * second;
}

PH__MATH float PH__MATH_NAME(logf)(float x)
{
    const uint32_t root = 0x3f3504f3u; /* of 1/2: mantissas are taken from there to twice that */
    float small = x < 0x1p-126f ? 0x1p23f : 1.0f;
    uint32_t bits = ph__bits_of_float(x * small) + (0x3f800000u - root);
    float e = (float)((int32_t)(bits >> 23) - 127) - (small == 1.0f ? 0.0f : 23.0f);
    float f = ph__float_of_bits((bits & 0x7fffffu) + root) - 1.0f;
    float q = PH__MATH_FMA(0.0674659467f, f, -0.116756408f);
    q = PH__MATH_FMA(q, f, 0.118881773f);
    q = PH__MATH_FMA(q, f, -0.124055916f);
    q = PH__MATH_FMA(q, f, 0.142195505f);
    q = PH__MATH_FMA(q, f, -0.166679957f);
    q = PH__MATH_FMA(q, f, 0.200021188f);
    q = PH__MATH_FMA(q, f, -0.250000096f);
    q = PH__MATH_FMA(q, f, 0.333333126f);
    float ff = f * f;
    float low = PH__MATH_FMA(-0.5f, ff, PH__MATH_FMA(e, 0x1.0bfbe8p-15f, ff * f * q));
    float y = PH__MATH_FMA(e, 0x1.62ep-1f, f + low);
    y = x == 0.0f ? -__builtin_inff() : y;
    y = x == __builtin_inff() ? x : y;
    return x < 0.0f ? __builtin_nanf("") : x == x ? y : x;
}

PH__MATH float PH__MATH_NAME(tanhf)(float x)
{
    float a = ph__absf(x), s = x * x;
    float q = PH__MATH_FMA(-0.00545350412f, s, 0.0204129254f);
    q = PH__MATH_FMA(q, s, -0.0536705384f);
    q = PH__MATH_FMA(q, s, 0.133306229f);
    q = PH__MATH_FMA(q, s, -0.333332525f);
    float small = PH__MATH_FMA(x * s, q, x);
    float large = 1.0f - 2.0f / (PH__MATH_NAME(expf)(2.0f * a) + 1.0f);
    return ph__copysignf(a < 0.625f ? small : large, x);
}

/* The distribution function of normal numbers; of NaN it is some number. */
#if PH__MATH_FUSED
/* Its difference from a half, over x, is a polynomial of the square about the middle of the squares
 * up to 5.25^2, where its terms do not cancel; the last step has one rounding. Beyond that the
 * polynomial grows, and the bounds 0 and 1 hold the value. They are taken of bits: of floats the
 * compiler makes two instructions and more. */
PH__MATH float PH__MATH_NAME(normal_cdff)(float x)
{
    const int32_t one = 0x3f800000;
    float t = PH__MATH_FMA(x * x, 0x1.293726p-4f, -1.0f);
    float p = PH__MATH_FMA(0x1.f73936p-13f, t, -0x1.583e5ap-11f);
    p = PH__MATH_FMA(p, t, 0x1.5c8044p-11f);
    p = PH__MATH_FMA(p, t, -0x1.1080d2p-10f);
    p = PH__MATH_FMA(p, t, 0x1.7b1c26p-9f);
    p = PH__MATH_FMA(p, t, -0x1.65133p-8f);
    p = PH__MATH_FMA(p, t, 0x1.13d64p-7f);
    p = PH__MATH_FMA(p, t, -0x1.a29e7p-7f);
    p = PH__MATH_FMA(p, t, 0x1.2fbcb8p-6f);
    p = PH__MATH_FMA(p, t, -0x1.9a4976p-6f);
    p = PH__MATH_FMA(p, t, 0x1.0666ccp-5f);
    p = PH__MATH_FMA(p, t, -0x1.45bdeep-5f);
    p = PH__MATH_FMA(p, t, 0x1.96b2bep-5f);
    p = PH__MATH_FMA(p, t, -0x1.12f392p-4f);
    p = PH__MATH_FMA(p, t, 0x1.13c848p-3f);
    int32_t bits = (int32_t)ph__bits_of_float(PH__MATH_FMA(x, p, 0.5f));
    bits = bits > 0 ? bits : 0;
    return ph__float_of_bits((uint32_t)(bits < one ? bits : one));
}

#else
/* Beyond 4 it is 1 in f32. */
PH__MATH float PH__MATH_NAME(erff)(float x)
{
    float a = ph__absf(x), s = x * x;
    float p = PH__MATH_FMA(-0.000609035812f, s, 0.00501196238f);
    p = PH__MATH_FMA(p, s, -0.0267789085f);
    p = PH__MATH_FMA(p, s, 0.112821408f);
    p = PH__MATH_FMA(p, s, -0.376125233f);
    p = PH__MATH_FMA(p, s, 1.12837915f);
    float b = a > 4.0f ? 4.0f : a;
    float q = PH__MATH_FMA(0.000203549048f, b, -0.00311689669f);
    q = PH__MATH_FMA(q, b, 0.0225164319f);
    q = PH__MATH_FMA(q, b, -0.104522955f);
    q = PH__MATH_FMA(q, b, -0.636519592f);
    q = PH__MATH_FMA(q, b, -1.12806216f);
    q = PH__MATH_FMA(q, b, -0.000103899352f);
    float large = ph__copysignf(1.0f - PH__MATH_NAME(exp_within)(q), x);
    return a < 0.85f ? x * p : large;
}

PH__MATH float PH__MATH_NAME(normal_cdff)(float x)
{
    return 0.5f * (1.0f + PH__MATH_NAME(erff)(x * 0.707106769f));
}
#endif

PH__MATH float PH__MATH_NAME(sigmoidf)(float x)
{
    float e = PH__MATH_NAME(expf)(-ph__absf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
