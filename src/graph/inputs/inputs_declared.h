/* SPDX-License-Identifier: MIT */
/* graph/inputs/inputs_declared.h: the memory that ph_stream_declare_use named. */
#ifndef PH_GRAPH_INPUTS_INPUTS_DECLARED_H
#define PH_GRAPH_INPUTS_INPUTS_DECLARED_H
#include "graph/object/graph.h"

const ph__declared *ph__declared_find(const ph__declarations *in, const ph_word *word);
const ph__declared *ph__declared_foreign(const ph__declarations *in, uint64_t buffer_id);
/* Copies those of `from` to the open capture that receives a copy of the graph. */
ph_status ph__declarations_pass(const ph_graph *graph, const ph__declarations *from,
                                uint64_t capture_id, const char *call);
/* The first name that memory was given stays. false: no host memory. */
bool ph__declarations_add(ph__declarations *to, const ph__declared *declared);
/* Adds those of `from`; false: no host memory, and some may have been added. */
bool ph__declarations_copy(ph__declarations *to, const ph__declarations *from);
void ph__declarations_free(ph__declarations *in);
#endif
