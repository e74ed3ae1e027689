/* SPDX-License-Identifier: MIT */
/* nn/graphed/alike.h: two captures that use the same memory from outside, told quickly. */
#ifndef PH_NN_GRAPHED_ALIKE_H
#define PH_NN_GRAPHED_ALIKE_H
#include <phonograph/graph.h>

/* True: node by node, words of the two that are not equal are numbers, or address memory that was
 * allocated behind the generation. False: they may be alike even so; only a comparison of all words
 * shows it. */
ph_status ph__graphs_are_alike(bool *out, ph_graph *a, ph_graph *b, uint64_t generation);
#endif
