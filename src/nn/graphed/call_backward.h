/* SPDX-License-Identifier: MIT */
/* nn/graphed/call_backward.h: backward of a call. */
#ifndef PH_NN_GRAPHED_CALL_BACKWARD_H
#define PH_NN_GRAPHED_CALL_BACKWARD_H
#include "nn/graphed/callable.h"
#include "tensor/tape/op.h"

/* Makes the node of a call that has been replayed; number: of the replay. False: the tape has
 * failed. */
bool ph__graphed_remember(ph__op *op, ph__callable *callable, uint64_t number);
#endif
