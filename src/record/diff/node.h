/* SPDX-License-Identifier: MIT */
/* record/diff/node.h: the difference between two nodes, words and dependencies apart. */
#ifndef PH_RECORD_DIFF_NODE_H
#define PH_RECORD_DIFF_NODE_H
#include "base/text.h"
#include "record/diff/diff.h"

void ph__diff_node(ph__differ *d, const ph__diff_level *level, size_t i, size_t j);
/* ": grid 4x1x1, ..."; nothing where there is none. */
void ph__put_shape(ph__text *text, const ph__record_node *node);
#endif
