/* SPDX-License-Identifier: MIT */
/* graph/change/probe_switch.h: switching the probe nodes of a graph on and off. */
#ifndef PH_GRAPH_CHANGE_PROBE_SWITCH_H
#define PH_GRAPH_CHANGE_PROBE_SWITCH_H
#include "graph/object/graph.h"

/* An update has given the executable what the record has. */
void ph__locate_updated(ph_graph *graph, const ph_record *from, const char *call);
#endif
