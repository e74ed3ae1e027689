/* SPDX-License-Identifier: MIT */
/* inspect/races/clocks.h: which node of a graph comes after which. */
#ifndef PH_INSPECT_RACES_CLOCKS_H
#define PH_INSPECT_RACES_CLOCKS_H
#include "base/vec.h"
#include "inspect/races/flat.h"

enum {
    PH__CLOCK_FAN = 16
};
/* A part of a clock, never changed once it is there: of 16 parts or of 16 chains the place of the
 * last node before. 0: none. */
typedef struct ph__clock_part {
    uint32_t at[PH__CLOCK_FAN];
} ph__clock_part;

/* Nodes in chains, each node behind the one before it in its chain; and for each node its clock:
 * how far each other chain comes before it. Clocks share their parts. */
typedef struct ph__clocks {
    uint32_t *chain, *place, *clock; /* by node; places count from 1 */
    uint32_t chain_count;
    unsigned levels;
    PH__VEC(ph__clock_part) parts;
    PH__VEC(uint32_t) tails; /* by chain: its last node */
    PH__VEC(uint32_t) ended; /* chains that some join has ended */
    uint64_t steps;          /* parts that were looked at */
} ph__clocks;

/* false: no memory. free in either case. */
bool ph__clocks_make(ph__clocks *out, const ph__flat *flat);
void ph__clocks_free(ph__clocks *clocks);
/* one < two in the list: whether a path leads from one to two. */
bool ph__clocks_order(ph__clocks *clocks, uint32_t one, uint32_t two);
#endif
