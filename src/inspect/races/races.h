/* SPDX-License-Identifier: MIT */
/* inspect/races/races.h: the list of a graph's races. */
#ifndef PH_INSPECT_RACES_RACES_H
#define PH_INSPECT_RACES_RACES_H
#include "inspect/races/sweep.h"
#include <phonograph/inspect/races.h>

struct ph_races {
    PH__VEC(ph_race) list; /* its strings: one allocation each, of `strings` */
    PH__VEC(char *) strings;
    size_t certain, found;
    uint64_t steps; /* of clocks and of the sweep, for tests of their growth */
};

/* Of a record that was captured, with its memory of other code (record/foreign.h). */
ph_status ph__races_find(ph_races **out, const ph_record *record, const char *call);
#endif
