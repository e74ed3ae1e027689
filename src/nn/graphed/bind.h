/* SPDX-License-Identifier: MIT */
/* nn/graphed/bind.h: making what comes fit. */
#ifndef PH_NN_GRAPHED_BIND_H
#define PH_NN_GRAPHED_BIND_H
#include "nn/graphed/callable.h"
#include "tensor/tape/grad_def.h"

/* Inputs into callable->operands, whose parameters are there:
 * themselves, or copies where the graphs cannot take them. */
bool ph__callable_bind(ph_tape *tape, ph__callable *callable, ph_tensor *const *in);
/* The same for one tensor, its binding, and its slot in a callable graph (PH_SLOT_NONE: there is
 * none). NULL: the tape has failed. */
ph_tensor *ph__callable_bind_tensor(ph_tape *tape, ph__callable *callable,
                                    const ph__callable_graph *callable_graph, ph__binding *binding,
                                    size_t slot, ph_tensor *x);
/* Warns, once for a callable, where what a call brings, or has saved, is the program's own, lies in
 * the pool of the callable, and a replay may have written over it. */
typedef enum ph__binding_kind {
    PH__BINDING_INPUT,
    PH__BINDING_SAVED,
    PH__BINDING_GRAD_OUTPUT
} ph__binding_kind;
void ph__callable_warn_overwritten(ph__callable *callable, ph__binding *binding, const ph_tensor *x,
                                   ph__binding_kind kind);
/* Fails the tape: a replay has written over the gradient of output i, which a callable lent. */
void ph__callable_fail_grad_overwritten(ph_tape *tape, const ph__callable *callable, size_t i,
                                        const ph_tensor *grad);
/* Memory for the gradient `at` of this call, of no pool that the callable's graphs write, whatever
 * pool the calling thread is routed to. Small ones of leaves have one block of the allocator's
 * together, which goes with the last of them. The caller's.
 * end_aside: once a call has all of them. */
ph_tensor *ph__callable_gradient(const ph__grad_call *call, ph__callable *callable, size_t at,
                                 ph_dtype dtype, const ph_shape *shape);
/* The same for a leaf that has no gradient and gets it from here alone. */
ph_tensor *ph__callable_leaf_gradient(const ph__grad_call *call, ph__callable *callable, size_t at,
                                      const ph_tensor *leaf);
void ph__callable_end_aside(ph_tape *tape, ph__callable *callable);
#endif
