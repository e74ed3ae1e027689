/* SPDX-License-Identifier: MIT */
/* record/diff/edges.h: the difference between the dependencies of two nodes. */
#ifndef PH_RECORD_DIFF_EDGES_H
#define PH_RECORD_DIFF_EDGES_H
#include "record/diff/diff.h"

void ph__diff_edges(ph__differ *d, const ph__diff_level *level, size_t i, size_t j);
#endif
