/* SPDX-License-Identifier: MIT */
/* tensor/autograd/gradients.h: sums of gradients, and leaves whose sum is complete. */
#ifndef PH_TENSOR_AUTOGRAD_GRADIENTS_H
#define PH_TENSOR_AUTOGRAD_GRADIENTS_H
#include "tensor/autograd/pass.h"

/* *sum is NULL or retained. Sums are made in the order of the calls, in place where nobody else
 * sees the memory. False: the tape has failed. */
bool ph__gradient_add(ph_tape *tape, ph_tensor **sum, ph_tensor *grad);
/* Nobody else sees its memory, which is contiguous: it may be changed, or given away. */
bool ph__gradient_is_ours(const ph_tensor *x);
/* Of a leaf that has a sum, to which nothing will be added. */
bool ph__pass_finish_leaf(ph__pass *pass, ph__gradient_slot *slot);
/* One contribution fewer is to come, from a node or from the caller: after the last one hooks
 * run, and the gradient is used. */
static inline bool ph__pass_count_down(ph__pass *pass, uint32_t slot)
{
    ph__gradient_slot *leaf = &pass->slots.at[slot];
    return --leaf->uses > 0 || !leaf->grad || ph__pass_finish_leaf(pass, leaf);
}
#endif
