/* SPDX-License-Identifier: MIT */
/* inspect/races/sweep.h: accesses of the same bytes with no order between their nodes. */
#ifndef PH_INSPECT_RACES_SWEEP_H
#define PH_INSPECT_RACES_SWEEP_H
#include "inspect/races/accesses.h"
#include "inspect/races/clocks.h"

enum {
    PH__RACES_KEPT = 2048,         /* of each kind */
    PH__RACES_CERTAIN_OF_NODE = 8, /* found for one later node, after which it looks no further */
    PH__RACES_OF_NODE = 64
};
typedef struct ph__meeting {
    uint32_t first, second; /* accesses */
} ph__meeting;
typedef struct ph__meetings {
    PH__VEC(ph__meeting) certain, possible;
    size_t found;
    uint64_t steps; /* entries that were looked at, and entered */
} ph__meetings;

/* false: no memory. */
bool ph__races_sweep(ph__meetings *out, const ph__accesses *accesses, const ph__flat *flat,
                     ph__clocks *clocks);
void ph__meetings_free(ph__meetings *meetings);
#endif
