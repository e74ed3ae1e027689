/* SPDX-License-Identifier: MIT */
/* phonograph/tensor_collectives.h: collectives of tensors, with gradients. collectives.h has what
 * holds for all of them. */
#ifndef PHONOGRAPH_TENSOR_COLLECTIVES_H
#define PHONOGRAPH_TENSOR_COLLECTIVES_H
#include <phonograph/collectives.h>
#include <phonograph/operators.h>

PH_BEGIN_DECLS

/* Operators that every rank of the communicator calls, in the same order, with operands of the same
 * shape and dtype. Each gives a new contiguous tensor of the tape. The formulas are those of
 * torch.distributed.nn.functional.
 *
 * Gradients:
 * - The gradient of an operand is that of the sum of the losses of all ranks.
 * - Backward is collective too. Every rank runs it where one does, and reaches these operators in
 *   the same order: a rank whose loss does not depend on the result makes the others wait until
 *   their time is over (PEER).
 * - PRODUCT, MIN and MAX have none: UNSUPPORTED for an operand that requires one, while gradients
 *   are enabled.
 *
 * - The history retains the communicator.
 * - Legal in a capture, in which every rank captures the same.
 * - Errors, which fail the tape: ARGUMENT (NULL, root, a shape as said below), WRONG_DEVICE, those
 *   of collectives.h. */

/* y = op over all ranks of x. The gradient of x: op over all ranks of that of y. */
PH_API ph_tensor *ph_tensor_all_reduce(ph_tape *tape, ph_comm *comm, ph_tensor *x, ph_reduce_op op);
/* y = the root's x. x of other ranks gives the shape and the dtype. The gradient of x: the sum over
 * all ranks of that of y on the root, zeros elsewhere. */
PH_API ph_tensor *ph_tensor_broadcast(ph_tape *tape, ph_comm *comm, ph_tensor *x, uint32_t root);
/* y = x of rank 0, of rank 1 and so on, one behind the other along axis 0. x [n, ...], y [size * n,
 * ...]; a rank of 0 is an error. The gradient of x: ph_tensor_reduce_scatter (SUM) of that of y. */
PH_API ph_tensor *ph_tensor_all_gather(ph_tape *tape, ph_comm *comm, ph_tensor *x);
/* y = this rank's part, along axis 0, of op over all ranks of x. x [size * n, ...], y [n, ...]: the
 * first dimension must be a multiple of the number of ranks. op: SUM or MEAN where a gradient is
 * wanted. The gradient of x: ph_tensor_all_gather of that of y; MEAN: divided by size. */
PH_API ph_tensor *ph_tensor_reduce_scatter(ph_tape *tape, ph_comm *comm, ph_tensor *x,
                                           ph_reduce_op op);

PH_END_DECLS
#endif
