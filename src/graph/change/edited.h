/* SPDX-License-Identifier: MIT */
/* graph/change/edited.h: a template whose handle the user has, and may have edited by the
 * driver's own calls. */
#ifndef PH_GRAPH_CHANGE_EDITED_H
#define PH_GRAPH_CHANGE_EDITED_H
#include "graph/object/graph.h"

/* The new parts of a graph, which an instantiate puts in place once nothing can fail any more;
 * template NULL: the template is as it was. */
typedef struct ph__edit {
    ph__drv_graph *template;
    ph_record *record;
    ph__map by_native;          /* nodes of the record by the driver's handles */
    ph__ranges capture, nested; /* the memory that is the graph's own */
    ph_kernel **kernels;
    struct ph__slot_node **slot_nodes;
    ph__inputs inputs;
    bool pointed; /* nodes that watch replays are those of this template */
} ph__edit;

/* The handle is about to be handed out: keeps what the template is now. */
ph_status ph__edit_expect(ph_graph *graph, const char *call);
/* STATE: what the library itself needs of the template is gone. */
ph_status ph__edit_read(ph__edit *out, ph_graph *graph, const char *call);
/* The executable is made of it, and is about to be told of its nodes. */
void ph__edit_point(ph__edit *edit, ph_graph *graph);
/* Nothing can fail any more; takes all of it over. */
void ph__edit_commit(ph__edit *edit, ph_graph *graph);
void ph__edit_abandon(ph__edit *edit, ph_graph *graph);
/* The graph lets go of its capture. */
void ph__edit_forget(ph_graph *graph);
#endif
