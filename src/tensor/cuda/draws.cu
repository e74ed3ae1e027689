/* SPDX-License-Identifier: MIT */
/* cuda/draws.cu: what random words become. C and CUDA both: philox.h includes it for the host,
 * so that both devices draw the same bits. No product is contracted with a sum on either. */
#ifdef __CUDACC__
#define PH_FN __device__ __forceinline__
PH_FN u32 ph_bits(f32 x)
{
    return __float_as_uint(x);
}
PH_FN f32 ph_of_bits(u32 bits)
{
    return __uint_as_float(bits);
}
PH_FN u64 ph_bits64(f64 x)
{
    return (u64)__double_as_longlong(x);
}
PH_FN f64 ph_of_bits64(u64 bits)
{
    return __longlong_as_double((i64)bits);
}
PH_FN f32 ph_sqrt_f32(f32 x)
{
    return __fsqrt_rn(x);
}
PH_FN f64 ph_sqrt_f64(f64 x)
{
    return __dsqrt_rn(x);
}
#define ph_exp_f32   expf
#define ph_exp_f64   exp
#define ph_floor_f32 floorf
#define ph_floor_f64 floor
#endif

/* ---- words ---- Philox 4x32-10 (Salmon et al., 2011). Element i of a draw belongs to group i /
 * 4; its w-th word is word i % 4 of the block with key `seed` and counter (offset / 4 + w, i /
 * 4), each of these 64 bits, low half first. */
typedef struct ph_words {
    u32 w[4];
} ph_words;

PH_FN ph_words ph_philox(u64 seed, u64 block, u64 group)
{
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = (u32)group, c3 = (u32)(group >> 32);
    for (int round = 0; round < 10; round++) {
        u64 p0 = (u64)c0 * 0xD2511F53u, p1 = (u64)c2 * 0xCD9E8D57u;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c1 = (u32)p1;
        c3 = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    ph_words words = {{c0, c1, c2, c3}};
    return words;
}

/* Of two words, the first one low. */
PH_FN u64 ph_wide(u32 low, u32 high)
{
    return (u64)high << 32 | low;
}

/* Two words of each of a group's elements. */
PH_FN void ph_wide_four(u64 *w, u64 seed, u64 block, u64 group)
{
    ph_words low = ph_philox(seed, block, group), high = ph_philox(seed, block + 1, group);
    for (int j = 0; j < 4; j++)
        w[j] = ph_wide(low.w[j], high.w[j]);
}

/* The upper half of a product of 64 bits by 64. */
PH_FN u64 ph_upper(u64 a, u64 b)
{
    u64 a0 = (u32)a, a1 = a >> 32, b0 = (u32)b, b1 = b >> 32;
    u64 middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (u32)middle;
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

/* ---- integers and events ---- */
/* low + [0, range), range > 0: a number has a probability of 1 / range, give or take 2^-64. */
PH_FN u64 ph_below(u64 word, u64 low, u64 range)
{
    return low + ph_upper(word, range);
}

/* Whether word / 2^32 < p, exactly; not for NaN. */
PH_FN int ph_event_f32(u32 word, f32 p)
{
    f32 scaled = p * 4294967296.0f;
    if (!(p > 0.0f))
        return 0;
    if (p >= 1.0f)
        return 1;
    i64 whole = (i64)scaled;
    return (i64)word < whole + ((f32)whole < scaled);
}

/* Whether the upper 53 bits of word / 2^64 are < p. */
PH_FN int ph_event_f64(u64 word, f64 p)
{
    return (f64)(i64)(word >> 11) * (1.0 / 9007199254740992.0) < p;
}

/* ---- uniforms in [0, 1) ---- as many bits as the dtype has: all of them are numbers of it. */
PH_FN f32 ph_unit_f32(u32 word)
{
    return (f32)(i32)(word >> 8) * (1.0f / 16777216.0f);
}
PH_FN f32 ph_unit_f16(u32 word)
{
    return (f32)(i32)(word >> 21) * (1.0f / 2048.0f);
}
PH_FN f32 ph_unit_bf16(u32 word)
{
    return (f32)(i32)(word >> 24) * (1.0f / 256.0f);
}
PH_FN f64 ph_unit_f64(u64 word)
{
    return (f64)(i64)(word >> 11) * (1.0 / 9007199254740992.0);
}

/* ---- -ln u ---- u = (v + 1/2) / 2^31, v the upper 31 bits of word (f64: 2^63 and 63): neither
 * 0 nor 1. Above 1/2 by way of 1 - u, which is as exact. ln by the series of atanh, whose
 * argument is at most 1/3. */
PH_FN f32 ph_minus_log_f32(u32 word)
{
    u32 v = word >> 1;
    int upper = v >= 0x40000000u;
    f32 u = (f32)(i32)v + 0.5f;
    f32 rest = ((f32)(i32)(0x7FFFFFFFu - v) + 0.5f) * (1.0f / 2147483648.0f);
    u32 bits = ph_bits(u) + (0x3F800000u - 0x3F3504F3u);
    f32 power = (f32)(158 - (i32)(bits >> 23));
    f32 m = ph_of_bits((bits & 0x007FFFFFu) + 0x3F3504F3u);
    f32 top = upper ? rest : 1.0f - m, bottom = upper ? 2.0f - rest : 1.0f + m;
    f32 s = top / bottom, z = s * s;
    f32 tail = 0.111111112f + z * (0.0909090936f + z * (0.0769230798f + z * 0.0666666701f));
    tail = z * (0.333333343f + z * (0.2f + z * (0.142857149f + z * tail)));
    power = upper ? 0.0f : power;
    s += s;
    return power * 0.693145751953125f + (s + (power * 1.42860677e-6f + s * tail));
}

/* atanh s = s + s * this(s^2), |s| at most 1/3. */
PH_FN f64 ph_atanh_tail_f64(f64 z)
{
    f64 tail =
        1.0 / 27.0 + z * (1.0 / 29.0 + z * (1.0 / 31.0 + z * (1.0 / 33.0 + z * (1.0 / 35.0))));
    tail = 1.0 / 19.0 + z * (1.0 / 21.0 + z * (1.0 / 23.0 + z * (1.0 / 25.0 + z * tail)));
    tail = 1.0 / 11.0 + z * (1.0 / 13.0 + z * (1.0 / 15.0 + z * (1.0 / 17.0 + z * tail)));
    return z * (1.0 / 3.0 + z * (1.0 / 5.0 + z * (1.0 / 7.0 + z * (1.0 / 9.0 + z * tail))));
}

PH_FN f64 ph_minus_log_f64(u64 word)
{
    u64 v = word >> 1;
    int upper = v >= 0x4000000000000000u;
    f64 u = (f64)(i64)v + 0.5;
    f64 rest = ((f64)(i64)(0x7FFFFFFFFFFFFFFFu - v) + 0.5) * (1.0 / 9223372036854775808.0);
    u64 bits = ph_bits64(u) + (0x3FF0000000000000u - 0x3FE6A09E667F3BCDu);
    f64 power = (f64)(1086 - (i32)(bits >> 52));
    f64 m = ph_of_bits64((bits & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCDu);
    f64 top = upper ? rest : 1.0 - m, bottom = upper ? 2.0 - rest : 1.0 + m;
    f64 s = top / bottom, z = s * s;
    f64 tail = ph_atanh_tail_f64(z);
    power = upper ? 0.0 : power;
    s += s;
    return power * 6.93147180369123816490e-01 +
           (s + (power * 1.90821492927058770002e-10 + s * tail));
}

/* ---- sine and cosine of a part of the circle ---- 2 pi (k + 1/2) / 2^25, k the upper 25 bits
 * of word (f64: 2^55 and 55): neither is ever 0. The nearest quarter turn is taken off in
 * integers, then the series. */
PH_FN void ph_turn_f32(f32 *sine, f32 *cosine, u32 word)
{
    u32 place = (word & 0xFFFFFF80u) | 0x40u, quarter = (place + 0x20000000u) >> 30;
    f32 y = (f32)(i32)(place - (quarter << 30)) * (1.0f / 536870912.0f), z = y * y;
    f32 s = -0.0807455122f + z * (0.00249039457f + z * (-3.65762042e-5f + z * 3.13361689e-7f));
    s = y * 0.785398185f + y * (-2.18556941e-8f + z * s);
    f32 c = 0.0158543442f + z * (-0.000325991887f + z * (3.59086045e-6f + z * -2.46113695e-8f));
    c = 1.0f + z * (-0.308425138f + z * c);
    f32 a = quarter & 1u ? c : s, b = quarter & 1u ? s : c;
    *sine = quarter & 2u ? -a : a;
    *cosine = (quarter + 1u) & 2u ? -b : b;
}

PH_FN void ph_turn_f64(f64 *sine, f64 *cosine, u64 word)
{
    u64 place = (word & 0xFFFFFFFFFFFFFE00u) | 0x100u,
        quarter = (place + 0x2000000000000000u) >> 62;
    f64 y = (f64)(i64)(place - (quarter << 62)) * (1.0 / 2305843009213693952.0), z = y * y;
    f64 s = 6.9484532738866292e-12 + z * (-2.0410263396641442e-14 + z * 4.6287046288346829e-17);
    s = -3.6576204182177253e-05 +
        z * (3.1336168903781217e-07 + z * (-1.757247673443401e-09 + z * s));
    s = z * (-0.080745512188280785 + z * (0.0024903945701927202 + z * s));
    s = y * 0.78539816339744828 + y * (3.061616997868383e-17 + s);
    f64 c = -3.8980731712596753e-13 + z * (1.0018886461636272e-15 + z * -2.0196533968866819e-18);
    c = 3.5908604485915101e-06 +
        z * (-2.4611369504941999e-08 + z * (1.1501159127974052e-10 + z * c));
    c = z * (0.015854344243815502 + z * (-0.00032599188692739001 + z * c));
    c = 1.0 + z * (-0.30842513753404244 + c);
    f64 a = quarter & 1u ? c : s, b = quarter & 1u ? s : c;
    *sine = quarter & 2u ? -a : a;
    *cosine = (quarter + 1u) & 2u ? -b : b;
}

/* ---- distributions ---- of a pair of elements (x even, y odd), from a word of each and two
 * numbers. f16 and bf16 are f32, rounded at the end; but for uniforms, which have bits of their
 * own. The word is that of the elements' own W (f32: u32, f64: u64). */
#define PH_DRAW_PAIR(name, F, W)                                                                   \
    PH_FN void ph_##name##_##F(F *x, F *y, W word_x, W word_y, F a, F b)                           \
    {                                                                                              \
        *x = ph_##name##_one_##F(word_x, a, b);                                                    \
        *y = ph_##name##_one_##F(word_y, a, b);                                                    \
    }
#define PH_DRAWS(F, W)                                                                             \
    /* a + u * b; a: low, b: high - low */                                                         \
    PH_FN F ph_uniform_one_##F(W word, F a, F b)                                                   \
    {                                                                                              \
        return a + ph_unit_##F(word) * b;                                                          \
    }                                                                                              \
    /* a: rate */                                                                                  \
    PH_FN F ph_exponential_one_##F(W word, F a, F b)                                               \
    {                                                                                              \
        (void)b;                                                                                   \
        return ph_minus_log_##F(word) / a;                                                         \
    }                                                                                              \
    /* a: median, b: scale; half a turn */                                                         \
    PH_FN F ph_cauchy_one_##F(W word, F a, F b)                                                    \
    {                                                                                              \
        F sine, cosine;                                                                            \
        ph_turn_##F(&sine, &cosine, word >> 1);                                                    \
        return a - b * (cosine / sine);                                                            \
    }                                                                                              \
    /* a: -1 / ln(1 - p): how many trials until the first success */                               \
    PH_FN F ph_geometric_one_##F(W word, F a, F b)                                                 \
    {                                                                                              \
        (void)b;                                                                                   \
        return ph_floor_##F(ph_minus_log_##F(word) * a) + (F)1;                                    \
    }                                                                                              \
    PH_DRAW_PAIR(uniform, F, W)                                                                    \
    PH_DRAW_PAIR(exponential, F, W)                                                                \
    PH_DRAW_PAIR(cauchy, F, W)                                                                     \
    PH_DRAW_PAIR(geometric, F, W)                                                                  \
    /* Box and Muller; a: mean, b: deviation */                                                    \
    PH_FN void ph_normal_##F(F *x, F *y, W word_x, W word_y, F a, F b)                             \
    {                                                                                              \
        F radius = ph_sqrt_##F((F)2 * ph_minus_log_##F(word_x)), sine, cosine;                     \
        ph_turn_##F(&sine, &cosine, word_y);                                                       \
        *x = a + b * (radius * cosine);                                                            \
        *y = a + b * (radius * sine);                                                              \
    }                                                                                              \
    PH_FN void ph_log_normal_##F(F *x, F *y, W word_x, W word_y, F a, F b)                         \
    {                                                                                              \
        ph_normal_##F(x, y, word_x, word_y, a, b);                                                 \
        *x = ph_exp_##F(*x);                                                                       \
        *y = ph_exp_##F(*y);                                                                       \
    }
PH_DRAWS(f32, u32)
PH_DRAWS(f64, u64)

/* f16 and bf16 have uniforms of their own. */
#define PH_UNIFORM_HALF(H)                                                                         \
    PH_FN void ph_uniform_##H(f32 *x, f32 *y, u32 word_x, u32 word_y, f32 a, f32 b)                \
    {                                                                                              \
        *x = a + ph_unit_##H(word_x) * b;                                                          \
        *y = a + ph_unit_##H(word_y) * b;                                                          \
    }
PH_UNIFORM_HALF(f16)
PH_UNIFORM_HALF(bf16)

/* ---- Poisson ---- in f64, of whatever dtype the rates are. Below a rate of 10 the distribution
 * function is searched from 0 on for a uniform of 53 bits; from there on the transformed
 * rejection PTRS of Hoermann ("The transformed rejection method for generating Poisson random
 * variables", 1993), whose constants these are, with two uniforms an attempt. An attempt fails
 * with a probability of at most 0.248, so that all of them do once in more than 2^64 times; then
 * the whole part of the rate stands. */
#define PH_POISSON_ATTEMPTS 32
#define PH_POISSON_WORDS    128 /* of 32 bits an element: four an attempt */

/* ln x, x positive and not subnormal. */
PH_FN f64 ph_ln_f64(f64 x)
{
    u64 bits = ph_bits64(x) + (0x3FF0000000000000u - 0x3FE6A09E667F3BCDu);
    f64 power = (f64)((i32)(bits >> 52) - 1023);
    f64 m = ph_of_bits64((bits & 0x000FFFFFFFFFFFFFu) + 0x3FE6A09E667F3BCDu);
    f64 s = (m - 1.0) / (m + 1.0), tail = ph_atanh_tail_f64(s * s);
    s += s;
    return power * 6.93147180369123816490e-01 +
           (s + (power * 1.90821492927058770002e-10 + s * tail));
}

/* exp(-x), 0 <= x <= 10. */
PH_FN f64 ph_exp_minus_f64(f64 x)
{
    f64 power = ph_floor_f64(x * 1.44269504088896340736 + 0.5);
    f64 r = (power * 6.93147180369123816490e-01 - x) + power * 1.90821492927058770002e-10;
    f64 y = 1.0 / 39916800.0 + r * (1.0 / 479001600.0 + r * (1.0 / 6227020800.0));
    y = 1.0 / 40320.0 + r * (1.0 / 362880.0 + r * (1.0 / 3628800.0 + r * y));
    y = 1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0 + r * y));
    y = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * y))));
    return y * ph_of_bits64((u64)(1023 - (i64)power) << 52);
}

/* The first k whose distribution function is above u; where rounding keeps it below, the one
 * from which on it does not grow. */
PH_FN f64 ph_poisson_search(f64 u, f64 rate)
{
    f64 k = 0.0, chance = ph_exp_minus_f64(rate), sum = chance, before = 0.0;
    while (u >= sum && sum > before) {
        k += 1.0;
        chance *= rate / k;
        before = sum;
        sum += chance;
    }
    return k;
}

/* ln(e^-rate rate^k / k!), k whole and not negative: by Stirling's series and the deviance
 * (Loader, "Fast and accurate computation of binomial probabilities", 2000), in which nothing
 * large is taken from something large. */
PH_FN f64 ph_poisson_ln_chance(f64 k, f64 rate)
{
    if (k < 10.0) {
        f64 factorial = 1.0;
        for (f64 j = 2.0; j <= k; j += 1.0)
            factorial *= j;
        return k * ph_ln_f64(rate) - rate - ph_ln_f64(factorial);
    }
    f64 z = 1.0 / (k * k), off = k - rate, s = off / (k + rate), deviance;
    f64 series = (1.0 / 12.0 - z * (1.0 / 360.0 -
                                    z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z * (1.0 / 1188.0))))) /
                 k;
    if (s * s <= 1.0 / 9.0)
        deviance = off * s + 2.0 * k * (s * ph_atanh_tail_f64(s * s));
    else
        deviance = k * ph_ln_f64(k / rate) - off;
    return -deviance - series - 0.5 * ph_ln_f64(6.28318530717958648 * k);
}

/* One attempt, rate >= 10: whether *k is drawn. */
PH_FN int ph_poisson_attempt(f64 *k, f64 rate, u64 word_u, u64 word_v)
{
    f64 b = 0.931 + 2.53 * ph_sqrt_f64(rate), a = -0.059 + 0.02483 * b;
    f64 u = ((f64)(i64)(word_u >> 12) + 0.5) * (1.0 / 4503599627370496.0) - 0.5;
    f64 v = ((f64)(i64)(word_v >> 12) + 0.5) * (1.0 / 4503599627370496.0);
    f64 rest = 0.5 - (u < 0.0 ? -u : u);
    *k = ph_floor_f64((2.0 * a / rest + b) * u + rate + 0.43);
    if (rest >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2.0))
        return 1;
    if (*k < 0.0 || (rest < 0.013 && v > rest))
        return 0;
    f64 ratio = v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (rest * rest) + b);
    return ph_ln_f64(ratio) <= ph_poisson_ln_chance(*k, rate);
}

/* Of a group's elements. Negative rates and NaN give NaN; from 2^110 on, where the deviation is
 * far below the last place, the rate itself. */
PH_FN void ph_poisson_four(f64 *x, const f64 *rate, u64 seed, u64 block, u64 group)
{
    u64 u[4], v[4];
    u32 open = 0;
    ph_wide_four(u, seed, block, group);
    for (int j = 0; j < 4; j++) {
        x[j] = ph_floor_f64(rate[j]);
        if (!(rate[j] >= 0.0))
            x[j] = ph_of_bits64(0x7FF8000000000000u);
        else if (rate[j] < 10.0)
            x[j] = ph_poisson_search(ph_unit_f64(u[j]), rate[j]);
        else if (rate[j] < 1298074214633706907132624082305024.0)
            open |= 1u << j;
    }
    for (u64 t = 0; open && t < PH_POISSON_ATTEMPTS; t++) {
        if (t > 0)
            ph_wide_four(u, seed, block + 4 * t, group);
        ph_wide_four(v, seed, block + 4 * t + 2, group);
        for (int j = 0; j < 4; j++) {
            f64 k;
            if (!(open >> j & 1u) || !ph_poisson_attempt(&k, rate[j], u[j], v[j]))
                continue;
            x[j] = k;
            open &= ~(1u << j);
        }
    }
}

/* ---- permutations ---- of the numbers of `left + right` bits: 16 steps of a Feistel network,
 * each of which mixes one half into the other. A number that is not below count goes through
 * again until it is: that is a permutation of those below count. */
#define PH_SHUFFLE_STEPS 16
PH_FN u32 ph_mix(u32 x)
{
    x ^= x >> 16;
    x *= 0x85EBCA6Bu;
    x ^= x >> 13;
    x *= 0xC2B2AE35u;
    return x ^ x >> 16;
}

PH_FN void ph_shuffle_steps(u32 *high, u32 *low, const u32 *keys, u32 high_mask, u32 low_mask)
{
    u32 h = *high, l = *low;
    for (int i = 0; i < PH_SHUFFLE_STEPS; i += 2) {
        h ^= ph_mix(l ^ keys[i]) & high_mask;
        l ^= ph_mix(h ^ keys[i + 1]) & low_mask;
    }
    *high = h;
    *low = l;
}

PH_FN u64 ph_shuffled(u64 x, u64 count, const u32 *keys, u32 high_bits, u32 low_bits)
{
    u32 high_mask = (u32)(((u64)1 << high_bits) - 1), low_mask = (u32)(((u64)1 << low_bits) - 1);
    do {
        u32 high = (u32)(x >> low_bits) & high_mask, low = (u32)x & low_mask;
        ph_shuffle_steps(&high, &low, keys, high_mask, low_mask);
        x = (u64)high << low_bits | low;
    } while (x >= count);
    return x;
}
