/* SPDX-License-Identifier: MIT */
/* nn/graphed/alike.h: two captures that use the same memory from outside, told quickly. */
#ifndef PH_NN_GRAPHED_ALIKE_H
#define PH_NN_GRAPHED_ALIKE_H
#include <phonograph/graph.h>

/* True: node by node, the two address the same memory of those that were allocated up to the
 * generation. False: they may be alike even so; only the whole sequence of addresses shows it. */
ph_status ph__graphs_are_alike(bool *out, ph_graph *a, ph_graph *b, uint64_t generation);
#endif
