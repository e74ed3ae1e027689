/* SPDX-License-Identifier: MIT */
/* graph/locate/probes_exec.h: probe nodes in an executable, and what they have to do with the
 * changes of their graph. */
#ifndef PH_GRAPH_LOCATE_PROBES_EXEC_H
#define PH_GRAPH_LOCATE_PROBES_EXEC_H
#include "graph/locate/locate.h"

/* STATE, and what the capture lacked, for a graph without breadcrumbs. */
ph_status ph__locate_need_breadcrumbs(const ph_graph *graph, const char *call);
/* A stream that will replay the graph for the first time. */
ph_status ph__locate_note_stream(const ph_graph *graph, ph_stream *stream);
size_t ph__locate_bytes(const ph_graph *graph);
/* Switches the nodes of an executable; the driver's number. */
int ph__probes_enable(const ph_graph *graph, ph__drv_exec *exec, const ph__probes *probes,
                      bool enabled);
/* Switches the probe nodes of an executable off that is about to be the graph's; the driver's
 * number. */
int ph__locate_start(const ph_graph *graph, ph__drv_exec *exec);
/* The executable that start was called with is the graph's. */
void ph__locate_renew(ph_graph *graph);
/* The checks have the arguments of the record. */
void ph__probes_load(ph__probes *checks, const ph_record *record);
/* Whether both captures have the same probe nodes, or why not. */
bool ph__locate_fits(const ph_graph *graph, const ph_graph *from, char *why, size_t size);
/* Puts into the arguments of a node that slots set what the executable was given. */
void ph__locate_patch(const ph_graph *graph, size_t node, void *args);
#endif
