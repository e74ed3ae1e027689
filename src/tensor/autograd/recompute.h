/* SPDX-License-Identifier: MIT */
/* tensor/autograd/recompute.h: the second run of checkpointed functions, in backward. */
#ifndef PH_TENSOR_AUTOGRAD_RECOMPUTE_H
#define PH_TENSOR_AUTOGRAD_RECOMPUTE_H
#include "tensor/tape/node.h"

/* Makes the saved values of node, which is not filled, by running its checkpointed function
 * again. False: the tape has failed. */
bool ph__region_fill(ph_tape *tape, ph__node *node);
/* A pass has come below node: values that checkpoints which begin there made again are dropped;
 * with consume their inputs too. */
void ph__region_leave(ph_tape *tape, const ph__node *node, bool consume);
#endif
