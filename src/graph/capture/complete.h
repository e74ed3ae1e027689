/* SPDX-License-Identifier: MIT */
/* graph/capture/complete.h: from the driver's graph to what the user sees. */
#ifndef PH_GRAPH_CAPTURE_COMPLETE_H
#define PH_GRAPH_CAPTURE_COMPLETE_H
#include "graph/object/graph.h"
#include "record/words.h"

/* Reads a template back that was imported: record, kernels, inputs. The pools are the graph's
 * already. */
ph_status ph__graph_read(ph_graph *graph, const ph__own_memory *own, const char *call);
/* The same of a capture that has ended, whose pool still knows what the capture was given: no more
 * than has to be read now, the record being made when somebody asks for it. Takes the ranges over:
 * those of the capture, and with those of nested graphs. */
ph_status ph__graph_read_captured(ph_graph *graph, ph__ranges *capture, ph__ranges *nested,
                                  const char *call);
size_t ph__graph_node_count(const ph_graph *graph);
/* A capture with nothing of the user's; false also where the driver does not say. */
bool ph__graph_is_empty(const ph_graph *graph);
/* From there to what the user sees: the hooks, and the executable unless the template is kept.
 * - The caller undoes a failure, then calls ph__graph_leave in any case.
 * - captured: the template comes from a capture of this library, so that nobody else has its
 *   handle once the hooks are over. */
ph_status ph__graph_complete(ph_graph *graph, bool captured, const char *call);
#endif
