/* SPDX-License-Identifier: MIT */
/* graph/capture/complete.h: from the driver's graph to what the user sees. */
#ifndef PH_GRAPH_CAPTURE_COMPLETE_H
#define PH_GRAPH_CAPTURE_COMPLETE_H
#include "graph/object/graph.h"
#include "record/words.h"

/* Reads the template back: record, kernels, inputs. The pools are the graph's already. */
ph_status ph__graph_read(ph_graph *graph, const ph__own_memory *own, const char *call);
/* From there to what the user sees: the hooks, and the executable unless the template is kept.
 * - The caller undoes a failure, then calls ph__graph_leave in any case.
 * - captured: the template comes from a capture of this library, so that nobody else has its
 *   handle once the hooks are over. */
ph_status ph__graph_complete(ph_graph *graph, bool captured, const char *call);
#endif
