/* SPDX-License-Identifier: MIT */
/* inspect/verify/held.h: pools that a graph holds beside its own: which of their memory is
 * compared. */
#ifndef PH_INSPECT_VERIFY_HELD_H
#define PH_INSPECT_VERIFY_HELD_H
#include "inspect/verify/verify.h"

/* After the first eager run: what it changed of pools that the graph holds is no scratch. */
void ph__verify_compare_held(ph__verify *verify);
/* After the first replay: of the rest, what that left otherwise may be written by an eager run too,
 * with the same bytes as before. One that begins with what the replay left there tells: *found, and
 * it is compared from then on. Changes `other`. */
ph_status ph__verify_inspect_held(ph__verify *verify, bool *found);
/* The contents that that run begins with; false: `start` is again as it was, whatever became of
 * the run. */
void ph__verify_swap_held(ph__verify *verify, bool swapped);
/* Of the rest of those pools, the blocks that the replay left otherwise than the eager run. */
size_t ph__verify_held_bytes(const ph__verify *verify);
#endif
