/* SPDX-License-Identifier: MIT */
/* graph/capture/lacks.h: what a captured graph may lack although its function succeeded. */
#ifndef PH_GRAPH_CAPTURE_LACKS_H
#define PH_GRAPH_CAPTURE_LACKS_H
#include <phonograph/graph.h>

/* The capture has begun: marks the calling thread's error record. */
void ph__lacks_begin(ph_graph *graph);
/* At the end of a capture. Where it is about to succeed: warns of calls that failed since, and of
 * work that ran at once on other streams. Where its body fails: an error record from before the
 * capture says nothing of that, and is replaced. */
void ph__lacks_check(ph_graph *graph, ph_status body, const char *call);
/* STATE: the function that succeeded has ended its capture itself. */
ph_status ph__lacks_end(const ph_graph *graph, const char *call);
#endif
