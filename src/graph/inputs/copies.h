/* SPDX-License-Identifier: MIT */
/* graph/inputs/copies.h: pinned and pageable memory that the copies of a graph use. */
#ifndef PH_GRAPH_INPUTS_COPIES_H
#define PH_GRAPH_INPUTS_COPIES_H
#include "graph/object/graph.h"

/* Where no record was made: keeps the pinned blocks that copies use. *odd: a side of a copy or fill
 * may be pageable memory, so that the record has to be looked at. */
ph_status ph__graph_scan_copies(bool *odd, ph_graph *graph, const char *call);
/* After the record was read, the pool held:
 * - pinned blocks that copies use are kept;
 * - pageable memory in copies is reported, or UNPINNED where the capture is strict. */
ph_status ph__graph_acquire_copies(ph_graph *graph, const char *call);
#endif
