/* SPDX-License-Identifier: MIT */
/* cache/learn.h: learning from two captures of one work. */
#ifndef PH_CACHE_LEARN_H
#define PH_CACHE_LEARN_H
#include "cache/learned.h"

/* Compares the graph with another capture of its work, with the call's pointers and values, and
 * makes the graph's slots anew. *learned_it false: something differs that none of them explains,
 * which the reason says, and nothing has changed. */
ph_status ph__learned_compare(bool *learned_it, ph__learned *learned, ph_graph *graph,
                              ph_graph *other, const ph_graph_cache_call *call, char *reason,
                              size_t size);
#endif
