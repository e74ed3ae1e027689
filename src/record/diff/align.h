/* SPDX-License-Identifier: MIT */
/* record/diff/align.h: the longest common subsequence of two sequences of hashes, near-linear where
 * they are nearly alike. */
#ifndef PH_RECORD_DIFF_ALIGN_H
#define PH_RECORD_DIFF_ALIGN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* mate[i]: which element of b element i of a is; SIZE_MAX: none. Ascending over i. */
typedef struct ph__align {
    const uint64_t *a, *b;
    size_t *mate;
    size_t steps; /* of work, for tests: comparisons, and points of the search */
} ph__align;

/* Aligns a[a0, a1) with b[b0, b1), whose mates are SIZE_MAX so far. false: no host memory; some
 * mates may be set. */
bool ph__align_range(ph__align *align, size_t a0, size_t a1, size_t b0, size_t b1);
#endif
