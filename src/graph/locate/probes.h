/* SPDX-License-Identifier: MIT */
/* graph/locate/probes.h: the probe nodes of a capture. */
#ifndef PH_GRAPH_LOCATE_PROBES_H
#define PH_GRAPH_LOCATE_PROBES_H
#include "graph/locate/locate.h"

/* Fails as the failure says; outside the lock. */
ph_status ph__probe_report(const ph__probe_failure *f, const ph_stream *stream, const char *call);
/* Makes it where there is none; NULL: no host memory. Under the lock. */
ph__locate *ph__locate_get(ph_graph *graph);
/* Captures the node on the stream, behind the root. Takes the name over on success. Under the
 * lock. */
void ph__probe_add(ph__probe_failure *f, ph__probes *probes, ph_stream *stream,
                   const ph__probe_node *node, const char *call);
/* How a node is launched: its own arguments. */
void ph__probe_launch(ph__drv_launch *out, const ph__probes *probes, const ph__probe_node *node);
ph_status ph__locate_begin(ph_graph *graph, const char *call); /* the capture has begun */
/* Before the driver's end of the capture. */
void ph__locate_join(ph_graph *graph);
/* The record has the nodes that the template has. */
void ph__locate_record(ph_graph *graph);
/* By what call the node is switched; NULL: it is no probe node. */
const char *ph__locate_call_of(const ph_graph *graph, size_t node);
void ph__locate_drop(ph_graph *graph);
#endif
