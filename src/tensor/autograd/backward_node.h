/* SPDX-License-Identifier: MIT */
/* tensor/autograd/backward_node.h: one node in backward. */
#ifndef PH_TENSOR_AUTOGRAD_BACKWARD_NODE_H
#define PH_TENSOR_AUTOGRAD_BACKWARD_NODE_H
#include "tensor/autograd/pass.h"

/* Runs the node with the gradients that have come to it; none: nothing. Temporaries go at its end.
 * False: the tape has failed. */
bool ph__pass_visit(ph__pass *pass, ph__node *node);
/* Counts down the leaves of a node, whether it ran or no gradient came to it. False: the tape has
 * failed. */
bool ph__pass_finish_leaves(ph__pass *pass, const ph__node *node);
#endif
