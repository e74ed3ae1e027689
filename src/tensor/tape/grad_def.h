/* SPDX-License-Identifier: MIT */
/* tensor/tape/grad_def.h: the backward function of an operator. */
#ifndef PH_TENSOR_TAPE_GRAD_DEF_H
#define PH_TENSOR_TAPE_GRAD_DEF_H
#include "tensor/core/tensor.h"

/* Backward runs in no-grad mode inside a scope of its own, and is written with
 * public operators where that costs nothing (their temporaries go at its end). It puts tensors
 * of the tape into in_grads[i] where needed[i] is set; NULL stays "none". A gradient of another
 * shape than the operand's is summed over the broadcast dimensions by the engine, and one of
 * another dtype is an error. */
typedef struct ph__grad_call {
    ph_tape *tape;
    void *state;              /* def->state_bytes */
    ph_tensor *const *saved;  /* as given to ph__op_save */
    const uint64_t *versions; /* of those; or without them, as the operator has noted */
    /* one for each output, contiguous or not; NULL: that output took no part (not all are) */
    ph_tensor *const *out_grads;
    size_t out_count, in_count;
    const bool *needed;
    /* autocast has cast the operand from f32: its gradient may be given in f32 as well */
    const bool *wide;
    ph_tensor **in_grads;
    /* For each operand the sum of its gradients so far, of the operand's dtype and shape,
     * contiguous, which backward may add to itself: then it gives that tensor as in_grads[i] and
     * sets summed[i]. NULL: there is none, or others see its memory. */
    ph_tensor *const *sums;
    bool *summed;
    /* ph_backward: gradients go into the grads of leaves; false: ph_grad gives them away */
    bool accumulates;
    /* For each operand the leaf that its gradient goes to; NULL: none, or nobody needs it. Where
     * accumulates is set, backward may add to the leaf's grad itself and leave in_grads[i] NULL,
     * if the leaf has no hooks (ph__leaf_has_hooks). */
    ph_tensor *const *leaves;
    const bool *sole; /* there is a leaf, and it gets nothing else in this pass */
} ph__grad_call;
typedef struct ph__grad_def {
    const char *name;
    size_t state_bytes;
    void (*backward)(ph__grad_call *call);
    void (*release)(void *state); /* may be NULL */
} ph__grad_def;
#endif
