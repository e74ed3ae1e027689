/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/abort.h: ending an open capture without a graph. */
#ifndef PH_GRAPH_LIFECYCLE_ABORT_H
#define PH_GRAPH_LIFECYCLE_ABORT_H
#include <phonograph/graph.h>

/* Ends an open capture for good, from any thread; also one between two segments. */
void ph__graph_drop_capture(ph_graph *graph);
/* The pool stops recording, whatever became of the capture; its memory stays. */
void ph__graph_close_pool(ph_graph *graph);
/* The same for a pool that goes on recording. */
void ph__graph_close_capture(ph_graph *graph);
/* Where longjmp has left capture functions, which is forbidden: they do not count as running any
 * more. */
void ph__graph_forget_left(ph_graph *graph);
#endif
