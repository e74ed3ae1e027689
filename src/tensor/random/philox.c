/* SPDX-License-Identifier: MIT */
/* tensor/random/philox.c: random words on the host, many at a time. */
#include "tensor/random/philox.h"

static void plain_u32(u32 *words, u64 seed, u64 block, u64 group, size_t groups)
{
    for (size_t i = 0; i < groups; i++) {
        ph_words four = ph_philox(seed, block, group + i);
        memcpy(words + 4 * i, four.w, sizeof four.w);
    }
}

static void plain_u64(u64 *words, u64 seed, u64 block, u64 group, size_t groups)
{
    for (size_t i = 0; i < groups; i++) {
        ph_words low = ph_philox(seed, block, group + i),
                 high = ph_philox(seed, block + 1, group + i);
        for (size_t j = 0; j < 4; j++)
            words[4 * i + j] = ph_wide(low.w[j], high.w[j]);
    }
}

#if defined(__x86_64__) && defined(__SSE2__)
#include <immintrin.h>

/* A lane of 64 bits belongs to a group: its low half is a word of the counter, its upper half is
 * anything. */
#define PHILOX(SUFFIX, TARGET, V, SET, MUL, SHIFT, XOR)                                            \
    TARGET PH_FN void philox_##SUFFIX(V c[4], u64 seed, u64 block, V group)                        \
    {                                                                                              \
        const V m0 = SET(0xD2511F53), m1 = SET(0xCD9E8D57);                                        \
        u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);                                                \
        c[0] = SET((i64)(u32)block);                                                               \
        c[1] = SET((i64)(block >> 32));                                                            \
        c[2] = group;                                                                              \
        c[3] = SHIFT(group, 32);                                                                   \
        for (int round = 0; round < 10; round++) {                                                 \
            V p0 = MUL(c[0], m0), p1 = MUL(c[2], m1);                                              \
            c[0] = XOR(XOR(SHIFT(p1, 32), c[1]), SET((i64)k0));                                    \
            c[2] = XOR(XOR(SHIFT(p0, 32), c[3]), SET((i64)k1));                                    \
            c[1] = p1;                                                                             \
            c[3] = p0;                                                                             \
            k0 += 0x9E3779B9u;                                                                     \
            k1 += 0xBB67AE85u;                                                                     \
        }                                                                                          \
    }
/* Lanes of the low halves of a, below those of b. */
#define PAIRS(a, b, SHIFT_LEFT, SHIFT, OR) OR(SHIFT(SHIFT_LEFT(a, 32), 32), SHIFT_LEFT(b, 32))

#define SSE2
PHILOX(sse2, SSE2, __m128i, _mm_set1_epi64x, _mm_mul_epu32, _mm_srli_epi64, _mm_xor_si128)
#define PAIRS_SSE2(a, b) PAIRS(a, b, _mm_slli_epi64, _mm_srli_epi64, _mm_or_si128)

static void sse2_u32(u32 *words, u64 seed, u64 block, u64 group, size_t groups)
{
    size_t i = 0;
    for (; i + 2 <= groups; i += 2) {
        __m128i c[4];
        philox_sse2(c, seed, block,
                    _mm_add_epi64(_mm_set1_epi64x((i64)(group + i)), _mm_set_epi64x(1, 0)));
        __m128i front = PAIRS_SSE2(c[0], c[1]), back = PAIRS_SSE2(c[2], c[3]);
        _mm_storeu_si128((__m128i *)(void *)(words + 4 * i), _mm_unpacklo_epi64(front, back));
        _mm_storeu_si128((__m128i *)(void *)(words + 4 * i + 4), _mm_unpackhi_epi64(front, back));
    }
    plain_u32(words + 4 * i, seed, block, group + i, groups - i);
}

static void sse2_u64(u64 *words, u64 seed, u64 block, u64 group, size_t groups)
{
    size_t i = 0;
    for (; i + 2 <= groups; i += 2) {
        __m128i low[4], high[4];
        const __m128i at = _mm_add_epi64(_mm_set1_epi64x((i64)(group + i)), _mm_set_epi64x(1, 0));
        philox_sse2(low, seed, block, at);
        philox_sse2(high, seed, block + 1, at);
        for (int j = 0; j < 4; j += 2) {
            __m128i a = PAIRS_SSE2(low[j], high[j]), b = PAIRS_SSE2(low[j + 1], high[j + 1]);
            _mm_storeu_si128((__m128i *)(void *)(words + 4 * i + (size_t)j),
                             _mm_unpacklo_epi64(a, b));
            _mm_storeu_si128((__m128i *)(void *)(words + 4 * i + 4 + (size_t)j),
                             _mm_unpackhi_epi64(a, b));
        }
    }
    plain_u64(words + 4 * i, seed, block, group + i, groups - i);
}

#define AVX2 __attribute__((target("avx2")))
PHILOX(avx2, AVX2, __m256i, _mm256_set1_epi64x, _mm256_mul_epu32, _mm256_srli_epi64,
       _mm256_xor_si256)
#define PAIRS_AVX2(a, b) PAIRS(a, b, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_or_si256)

AVX2 PH_FN __m256i four_groups(u64 group)
{
    return _mm256_add_epi64(_mm256_set1_epi64x((i64)group), _mm256_set_epi64x(3, 2, 1, 0));
}

/* even and odd: lanes 0 and 2, and 1 and 3, of the two in turn. */
AVX2 PH_FN void store_avx2(void *first, void *second, __m256i a, __m256i b)
{
    __m256i even = _mm256_unpacklo_epi64(a, b), odd = _mm256_unpackhi_epi64(a, b);
    _mm256_storeu_si256(first, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(second, _mm256_permute2x128_si256(even, odd, 0x31));
}

AVX2 static void avx2_u32(u32 *words, u64 seed, u64 block, u64 group, size_t groups)
{
    size_t i = 0;
    for (; i + 8 <= groups; i += 8) {
        __m256i c[4], d[4];
        philox_avx2(c, seed, block, four_groups(group + i));
        philox_avx2(d, seed, block, four_groups(group + i + 4));
        store_avx2(words + 4 * i, words + 4 * i + 8, PAIRS_AVX2(c[0], c[1]),
                   PAIRS_AVX2(c[2], c[3]));
        store_avx2(words + 4 * i + 16, words + 4 * i + 24, PAIRS_AVX2(d[0], d[1]),
                   PAIRS_AVX2(d[2], d[3]));
    }
    sse2_u32(words + 4 * i, seed, block, group + i, groups - i);
}

AVX2 static void avx2_u64(u64 *words, u64 seed, u64 block, u64 group, size_t groups)
{
    size_t i = 0;
    for (; i + 4 <= groups; i += 4) {
        __m256i low[4], high[4], w[4];
        const __m256i at = four_groups(group + i);
        philox_avx2(low, seed, block, at);
        philox_avx2(high, seed, block + 1, at);
        for (int j = 0; j < 4; j++)
            w[j] = PAIRS_AVX2(low[j], high[j]);
        __m256i even01 = _mm256_unpacklo_epi64(w[0], w[1]),
                odd01 = _mm256_unpackhi_epi64(w[0], w[1]);
        __m256i even23 = _mm256_unpacklo_epi64(w[2], w[3]),
                odd23 = _mm256_unpackhi_epi64(w[2], w[3]);
        __m256i *out = (__m256i *)(void *)(words + 4 * i);
        _mm256_storeu_si256(out, _mm256_permute2x128_si256(even01, even23, 0x20));
        _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(odd01, odd23, 0x20));
        _mm256_storeu_si256(out + 2, _mm256_permute2x128_si256(even01, even23, 0x31));
        _mm256_storeu_si256(out + 3, _mm256_permute2x128_si256(odd01, odd23, 0x31));
    }
    sse2_u64(words + 4 * i, seed, block, group + i, groups - i);
}
#define CHOOSE(type) (__builtin_cpu_supports("avx2") ? avx2_##type : sse2_##type)
#else
#define CHOOSE(type) plain_##type
#endif

void ph__words_u32(u32 *words, u64 seed, u64 block, u64 group, size_t groups)
{
    CHOOSE(u32)(words, seed, block, group, groups);
}

void ph__words_u64(u64 *words, u64 seed, u64 block, u64 group, size_t groups)
{
    CHOOSE(u64)(words, seed, block, group, groups);
}
