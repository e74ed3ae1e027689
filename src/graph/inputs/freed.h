/* SPDX-License-Identifier: MIT */
/* graph/inputs/freed.h: memory of this library that was freed before a graph was imported. */
#ifndef PH_GRAPH_INPUTS_FREED_H
#define PH_GRAPH_INPUTS_FREED_H
#include "graph/object/graph.h"

/* After the record was read, the pool held. Addresses in memory that is free:
 * - STATE where the capture is strict and the word is an address for certain;
 * - else one warning with the first of them and their number. */
ph_status ph__graph_report_freed(ph_graph *graph, const char *call);
#endif
