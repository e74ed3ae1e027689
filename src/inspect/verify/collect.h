/* SPDX-License-Identifier: MIT */
/* inspect/verify/collect.h: the memory that a verification keeps. */
#ifndef PH_INSPECT_VERIFY_COLLECT_H
#define PH_INSPECT_VERIFY_COLLECT_H
#include "inspect/verify/verify.h"

/* Memory that a graph addresses and was given. compared false: neither side of it is to be the
 * same. */
ph_status ph__verify_collect(ph__verify *verify, ph_graph *graph, bool compared);
/* The copy that is kept of the address; NULL also where the contents could not be kept. */
const ph__kept *ph__verify_find_kept(const ph__verify *verify, uintptr_t address);
#endif
