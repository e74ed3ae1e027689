/* SPDX-License-Identifier: MIT */
/* graph/object/deferred_record.h: what a capture left, from which its record is made when somebody
 * asks. */
#ifndef PH_GRAPH_OBJECT_DEFERRED_RECORD_H
#define PH_GRAPH_OBJECT_DEFERRED_RECORD_H
#include "base/sync.h"
#include "graph/object/graph.h"

/* The template, and what the words of its nodes lie in: the capture's own ranges, and the moment of
 * the capture's end. Of a graph, and of those that an update has given its parameters. */
struct ph__deferred_record {
    atomic_uint holders;
    ph__mutex reading; /* by one thread at a time */
    ph_device *device; /* retained */
    ph__drv_graph *template;
    ph__moment moment;
    bool lasting;               /* the moment can be looked at later */
    ph__ranges capture, nested; /* as in ph__own_memory */
};

/* Of the graph's template, whose owner it becomes; takes the ranges over. *lasting false: the
 * record has to be made at once. NULL: no host memory, and nothing was taken. */
ph__deferred_record *ph__deferred_record_create(bool *lasting, ph_graph *graph, ph__ranges *capture,
                                                ph__ranges *nested);
ph__deferred_record *ph__deferred_record_retain(ph__deferred_record *deferred);
void ph__deferred_record_release(ph__deferred_record *deferred); /* takes NULL */
/* The record as it would have been at the capture's end; the caller's, who holds the deferred
 * record as long. */
ph_status ph__deferred_record_read(ph_record **out, ph__deferred_record *deferred,
                                   const char *call);

/* Makes the record of a graph that has none yet, with the annotations of its nodes, and
 * node_kernels. give: of one without segments, whose marks nobody else resolves meanwhile. */
ph_status ph__graph_need_record(ph_graph *graph, const char *call);
ph_status ph__deferred_record_give(ph_graph *graph, const char *call);
#endif
