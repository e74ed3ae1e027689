/* SPDX-License-Identifier: MIT */
/* inspect/verify/race.h: nodes that share memory without an order. */
#ifndef PH_INSPECT_VERIFY_RACE_H
#define PH_INSPECT_VERIFY_RACE_H
#include "inspect/verify/verify.h"

/* Two nodes without a path between them that address one allocation, which at least one of them
 * writes as far as can be seen. */
typedef struct ph__race {
    size_t one, two;            /* one < two; SIZE_MAX: none was found */
    const char *first, *second; /* the name of the word of each */
    ph_allocation block;
    bool proved; /* the other order of the two gives another result */
} ph__race;
/* Bounded work. seen: such a pair at that address is preferred. Runs parts: `replay` and `other`
 * are changed. */
ph_status ph__verify_find_race(ph__race *out, ph__verify *verify, uintptr_t seen);
#endif
