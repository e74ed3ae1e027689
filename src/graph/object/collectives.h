/* SPDX-License-Identifier: MIT */
/* graph/object/collectives.h: the collectives of a capture, which the layer above attaches. */
#ifndef PH_GRAPH_OBJECT_COLLECTIVES_H
#define PH_GRAPH_OBJECT_COLLECTIVES_H
#include "graph/object/graph.h"

/* Among the objects that the graph retains. No function is called with a lock held. */
struct ph__collectives {
    /* Before a replay. A failure: nothing is launched, and end is not called. */
    ph_status (*begin)(ph__collectives *self, ph_stream *stream, const char *call);
    void (*end)(ph__collectives *self, ph_stream *stream, bool launched);
    /* Whether the executable of `self` may take the parameters of the other capture. */
    bool (*same)(const ph__collectives *self, const ph__collectives *other);
};

/* Whether a node of the record is a collective, whose parameters stay as all ranks know them: also
 * one of NCCL's kernels, whoever launched it. */
bool ph__collective_is_node(const ph_graph *graph, size_t node);
#endif
