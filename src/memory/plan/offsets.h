/* SPDX-License-Identifier: MIT */
/* memory/plan/offsets.h: where each block lies. Knows no device: offsets are numbers. */
#ifndef PH_MEMORY_PLAN_OFFSETS_H
#define PH_MEMORY_PLAN_OFFSETS_H
#include "memory/plan/conflicts.h"

/* Sets the offsets: no two blocks of a pair overlap. Each comes into the lowest gap, in the order
 * that takes least of four: those that are left and then the largest first, the largest, the
 * largest product of size and lifetime, the longest lifetime.
 * - bytes: of all together. bound: what they take at least; where one order needs no more than
 *   1/64 above it, the next ones are not tried.
 * - Time: pairs x log of a block's pairs.
 * - false: no host memory, or no such sum. */
bool ph__plan_place(ph__plan_block *blocks, size_t count, const ph__conflicts *conflicts,
                    size_t bound, size_t *bytes);
#endif
