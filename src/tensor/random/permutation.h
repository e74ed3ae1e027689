/* SPDX-License-Identifier: MIT */
/* tensor/random/permutation.h: elements of random permutations, on the host, without a tensor. */
#ifndef PH_TENSOR_RANDOM_PERMUTATION_H
#define PH_TENSOR_RANDOM_PERMUTATION_H
#include <stddef.h>
#include <stdint.h>

enum {
    PH__SHORT_PERMUTATION = 1024 /* and below: by sorting random keys; else by a network */
};

/* numbers[0..count) sorted by their 64-bit keys; equal keys stay in order. count is at most
 * PH__SHORT_PERMUTATION. */
void ph__permutation_sort(int64_t *numbers, const uint64_t *keys, size_t count);

/* Puts element at[i] of a permutation in the place of at[i]: that of ph_randperm(tape, length)
 * with a generator of that seed and offset. Each at[i] is below length. */
void ph__permutation_at(int64_t *at, size_t count, uint64_t length, uint64_t seed, uint64_t offset);
#endif
