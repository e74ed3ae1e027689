/* SPDX-License-Identifier: MIT */
/* base/rng.h: a small seeded generator for chaos runs and tests (SplitMix64, Steele, Lea and
 * Flood 2014); not for cryptography. */
#ifndef PH_BASE_RNG_H
#define PH_BASE_RNG_H
#include <stdint.h>

typedef struct ph__rng {
    uint64_t state;
} ph__rng;

static inline uint64_t ph__rng_next(ph__rng *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 <= result < n; n > 0. The slight bias of the modulo is of no matter here. */
static inline uint64_t ph__rng_below(ph__rng *rng, uint64_t n)
{
    return ph__rng_next(rng) % n;
}
#endif
