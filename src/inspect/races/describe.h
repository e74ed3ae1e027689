/* SPDX-License-Identifier: MIT */
/* inspect/races/describe.h: a race as the caller sees it. */
#ifndef PH_INSPECT_RACES_DESCRIBE_H
#define PH_INSPECT_RACES_DESCRIBE_H
#include "inspect/races/races.h"

typedef struct ph__describer {
    ph_races *races;
    const ph__flat *flat;
    const ph__accesses *accesses;
} ph__describer;
/* Adds it to the list. false: no memory. */
bool ph__races_describe(const ph__describer *with, const ph__meeting *meeting, bool certain);
#endif
