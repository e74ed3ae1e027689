/* SPDX-License-Identifier: MIT */
/* graph/inputs/brought.h: what an update brought from another capture, where nobody has read it. */
#ifndef PH_GRAPH_INPUTS_BROUGHT_H
#define PH_GRAPH_INPUTS_BROUGHT_H
#include "graph/inputs/inputs.h"
#include "graph/object/deferred_record.h"

/* The other capture as its inputs are found by: it may be reset, or capture anew. */
struct ph__brought {
    ph__deferred_record *deferred_record; /* held */
    ph__declarations declared;
    /* of the graph's pools, those that replays of the other one may write anywhere */
    PH__VEC(const ph__writer *) anywhere;
    bool kernels_due; /* node_kernels are not of it yet */
};

/* Whether the other capture can be looked at later: the graph checks no inputs, and the template is
 * as it was captured. Once its handle is given out all of it has been read before. */
bool ph__brought_can_wait(const ph_graph *graph, const ph_graph *from);
/* make: *out stays NULL where it cannot wait. `anywhere` is found by find_pools, when the
 * graph has the pools; there is room. */
ph_status ph__brought_make(ph__brought **out, const ph_graph *graph, const ph_graph *from,
                           const char *call);
void ph__brought_find_pools(ph__brought *brought, const ph_graph *graph, const ph_graph *from);
void ph__brought_free(ph__brought *brought); /* takes NULL */
void ph__brought_drop(ph_graph *graph);      /* the graph's, if it has one */
/* Leaves the deferred record of the graph to another graph, which lets it go when it is cleared. */
void ph__brought_leave(ph_graph *graph, ph_graph *to);
size_t ph__brought_bytes(const ph_graph *graph);
/* The inputs of what was brought, as ph__inputs_of_graph. */
ph_status ph__brought_inputs(ph__inputs *out, ph_graph *graph, const char *call);
/* Whether the address is memory of that capture, or held by it. generation 0: nothing lives
 * there. */
bool ph__brought_owns(const ph_graph *graph, uint64_t address, ph_pool_id pool,
                      uint64_t generation);
/* Makes node_kernels those of the nodes as they are now. */
ph_status ph__brought_kernels(ph_graph *graph, const char *call);
#endif
