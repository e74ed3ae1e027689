/* SPDX-License-Identifier: MIT */
/* base/sha256.c: SHA-256, written from FIPS 180-4 (August 2015); the comments name its sections. */
#include "base/sha256.h"
#include <string.h>

enum {
    BLOCK_BYTES = 64,
    LENGTH_AT = 56, /* of the message's length in the last block */
    ROUNDS = 64
};

/* 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t x, unsigned by)
{
    return x >> by | x << (32 - by);
}

/* 6.2.2, step 1: the message schedule. */
static void expand_block(uint32_t w[ROUNDS], const uint8_t *block)
{
    for (size_t t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | (uint32_t)block[4 * t + 3];
    for (size_t t = 16; t < ROUNDS; t++) {
        uint32_t sigma0 = rotate_right(w[t - 15], 7) ^ rotate_right(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t sigma1 = rotate_right(w[t - 2], 17) ^ rotate_right(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
    }
}

/* 6.2.2, steps 2 to 4; state[0] to state[7] are the working variables a to h. */
static void absorb_block(uint32_t hash[8], const uint8_t *block)
{
    uint32_t w[ROUNDS], state[8];
    expand_block(w, block);
    memcpy(state, hash, sizeof state);
    for (size_t t = 0; t < ROUNDS; t++) {
        uint32_t a = state[0], e = state[4];
        uint32_t sum1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
        uint32_t choice = (e & state[5]) ^ (~e & state[6]);
        uint32_t first = state[7] + sum1 + choice + constants[t] + w[t];
        uint32_t sum0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
        uint32_t majority = (a & state[1]) ^ (a & state[2]) ^ (state[1] & state[2]);
        memmove(state + 1, state, 7 * sizeof *state);
        state[4] += first;
        state[0] = first + sum0 + majority;
    }
    for (size_t i = 0; i < 8; i++)
        hash[i] += state[i];
}

void ph__sha256(uint8_t out[PH__SHA256_BYTES], const void *data, size_t bytes)
{
    /* 5.3.3 */
    uint32_t hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *at = data;
    size_t left = bytes;
    for (; left >= BLOCK_BYTES; left -= BLOCK_BYTES, at += BLOCK_BYTES)
        absorb_block(hash, at);

    /* 5.1.1: a one bit, zeros, and the length in bits fill the last block or the last two. */
    uint8_t last[2 * BLOCK_BYTES] = {0};
    size_t padded = left < LENGTH_AT ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    if (left != 0)
        memcpy(last, at, left);
    last[left] = 0x80;
    for (size_t i = 0; i < 8; i++)
        last[padded - 1 - i] = (uint8_t)((uint64_t)bytes << 3 >> 8 * i);
    for (size_t begin = 0; begin < padded; begin += BLOCK_BYTES)
        absorb_block(hash, last + begin);

    for (size_t i = 0; i < PH__SHA256_BYTES; i++)
        out[i] = (uint8_t)(hash[i / 4] >> (24 - 8 * (i % 4)));
}
