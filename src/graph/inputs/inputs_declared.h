/* SPDX-License-Identifier: MIT */
/* graph/inputs/inputs_declared.h: the memory that ph_stream_declare_use named. */
#ifndef PH_GRAPH_INPUTS_INPUTS_DECLARED_H
#define PH_GRAPH_INPUTS_INPUTS_DECLARED_H
#include "graph/object/graph.h"

const ph__declared *ph__declared_find(const ph__declarations *in, const ph_word *word);
const ph__declared *ph__declared_foreign(const ph__declarations *in, uint64_t buffer_id);
/* Copies the declarations of the graph to the open capture that received a copy of the graph. */
ph_status ph__declarations_pass(ph_graph *graph, uint64_t capture_id, const char *call);
/* Adds those of `from`; false: no host memory, and some may have been added. */
bool ph__declarations_copy(ph__declarations *to, const ph__declarations *from);
void ph__declarations_free(ph__declarations *in);
#endif
