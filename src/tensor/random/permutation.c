/* SPDX-License-Identifier: MIT */
/* tensor/random/permutation.c: what randperm.c draws on the host: sorting random keys, and single
 * elements of a permutation. */
#include "tensor/random/permutation.h"
#include "tensor/random/philox.h"

/* Merges sorted runs of numbers, by key. */
static void merge_runs(u16 *out, const u16 *in, size_t begin, size_t middle, size_t end,
                       const u64 *keys)
{
    size_t a = begin, b = middle;
    for (size_t i = begin; i < end; i++)
        out[i] = b == end || (a < middle && keys[in[a]] <= keys[in[b]]) ? in[a++] : in[b++];
}

static const u16 *sort_by_key(u16 numbers[2][PH__SHORT_PERMUTATION], const u64 *keys, size_t count)
{
    int from = 0;
    for (size_t i = 0; i < count; i++)
        numbers[0][i] = (u16)i;
    for (size_t run = 1; run < count; run *= 2, from = !from)
        for (size_t begin = 0; begin < count; begin += 2 * run) {
            size_t middle = begin + run < count ? begin + run : count;
            size_t end = middle + run < count ? middle + run : count;
            merge_runs(numbers[!from], numbers[from], begin, middle, end, keys);
        }
    return numbers[from];
}

void ph__permutation_sort(int64_t *numbers, const uint64_t *keys, size_t count)
{
    u16 sorted[2][PH__SHORT_PERMUTATION];
    const u16 *from = sort_by_key(sorted, keys, count);
    for (size_t i = 0; i < count; i++)
        numbers[i] = from[i];
}

static void permute_short(int64_t *at, size_t count, size_t length, u64 seed, u64 block)
{
    u64 keys[PH__SHORT_PERMUTATION];
    int64_t numbers[PH__SHORT_PERMUTATION];
    ph__words_u64(keys, seed, block, 0, (length + 3) / 4);
    ph__permutation_sort(numbers, keys, length);
    for (size_t i = 0; i < count; i++)
        at[i] = numbers[at[i]];
}

static void permute_long(int64_t *at, size_t count, u64 length, u64 seed, u64 block)
{
    u32 keys[PH_SHUFFLE_STEPS];
    u32 bits = 64 - (u32)__builtin_clzll(length - 1);
    ph__words_u32(keys, seed, block, 0, PH_SHUFFLE_STEPS / 4);
    for (size_t i = 0; i < count; i++)
        at[i] = (int64_t)ph_shuffled((u64)at[i], length, keys, bits / 2, bits - bits / 2);
}

void ph__permutation_at(int64_t *at, size_t count, uint64_t length, uint64_t seed, uint64_t offset)
{
    if (length <= PH__SHORT_PERMUTATION)
        permute_short(at, count, (size_t)length, seed, offset / 4);
    else
        permute_long(at, count, length, seed, offset / 4);
}
