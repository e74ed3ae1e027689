/* SPDX-License-Identifier: MIT */
/* base/half.h: f16 and bf16 in C: bits to f32, and f32 to the nearest (ties to even), as
 * a GPU does it, NaN (0x7fff) included. */
#ifndef PH_BASE_HALF_H
#define PH_BASE_HALF_H
#include <stdint.h>
#include <string.h>

static inline float ph__float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t ph__bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The exponent is moved by a multiplication, which is exact for subnormal numbers too. */
static inline float ph__f16_get(uint16_t h)
{
    uint32_t magnitude = h & 0x7fffu;
    uint32_t bits = ph__bits_of_float(ph__float_of_bits(magnitude << 13) * 0x1p112f);
    bits |= magnitude >= 0x7c00u ? 0x7f800000u : 0u;
    return ph__float_of_bits(bits | (uint32_t)(h & 0x8000u) << 16);
}

static inline uint16_t ph__f16_put(float x)
{
    uint32_t bits = ph__bits_of_float(x), sign = bits >> 16 & 0x8000u,
             magnitude = bits & 0x7fffffffu;
    /* Below 2^-14 the last place is 2^-24, as it is of a float in [0.5, 1). */
    uint32_t small = ph__bits_of_float(ph__float_of_bits(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
    uint32_t large = magnitude > 0x7f800000u ? 0x7fffu : 0x7c00u;
    uint32_t h = magnitude < 0x38800000u ? small : magnitude >= 0x477ff000u ? large : normal;
    return (uint16_t)(magnitude > 0x7f800000u ? 0x7fffu : sign | h);
}

static inline float ph__bf16_get(uint16_t h)
{
    return ph__float_of_bits((uint32_t)h << 16);
}

static inline uint16_t ph__bf16_put(float x)
{
    uint32_t bits = ph__bits_of_float(x);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}
#endif
