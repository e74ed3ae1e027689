/* SPDX-License-Identifier: MIT */
/* graph/memory/cells_replay.h: the values that each replay gives the cells of a graph. */
#ifndef PH_GRAPH_MEMORY_CELLS_REPLAY_H
#define PH_GRAPH_MEMORY_CELLS_REPLAY_H
#include "graph/object/graph.h"

/* The capture has ended well: calls the sources. */
void ph__cells_captured(ph_graph *graph, const char *call);
/* A stream that will replay the graph for the first time. */
ph_status ph__cells_note_stream(ph_graph *graph, ph_stream *stream, const char *call);
/* Around a launch, of graphs with cells only:
 * - begin gives the executable its values. No other such launch of the device comes between it
 *   and end. After its failure there is no end.
 * - end reports to the sources whether the graph was launched. */
ph_status ph__cells_begin(ph_graph *graph, const char *call);
void ph__cells_end(ph_graph *graph, bool launched);
void ph__cells_renew(ph_graph *graph); /* there is a new executable */
#endif
