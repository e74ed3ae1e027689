/* SPDX-License-Identifier: MIT */
/* nn/graphed/leaves.h: gradients of leaves, told apart. */
#ifndef PH_NN_GRAPHED_LEAVES_H
#define PH_NN_GRAPHED_LEAVES_H
#include "nn/graphed/callable.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/leaf.h"

/* The leaf whose own gradient may take a sum from the graph's last
 * node, or NULL; which of these gradients it may add to in one launch: ph__grad_input.apart. False:
 * the tape has failed. */
static inline ph_tensor *ph__grad_input_leaf(const ph__grad_call *call,
                                             const ph__grad_input *grad_input)
{
    ph_tensor *leaf = call->accumulates && call->leaves ? call->leaves[grad_input->operand] : NULL;
    /* hooks see a gradient before the leaf has it */
    return leaf && leaf->leaf && !leaf->leaf->hooks ? leaf : NULL;
}
bool ph__grad_input_may_add(const ph__callable *callable, const ph_tensor *leaf);
bool ph__callable_find_leaf_grads(const ph__grad_call *call, ph__callable *callable);
#endif
