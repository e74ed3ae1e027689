/* SPDX-License-Identifier: MIT */
/* tensor/operators/heads.c: queries, keys and values of one tensor, where they lie in it, and one
 * gradient of the three that attention's backward gives. */
#include "tensor/operators/heads.h"
#include "tensor/core/tensor.h"
#include "tensor/operators/attention_operands.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

/* The i-th part of x [batch, rows, 3, heads, d], as [batch, heads, rows, d]. */
static ph_tensor *view_heads(ph__op *op, ph_tensor *x, int i)
{
    const int64_t *dim = x->shape.dim, *stride = x->stride,
                  strides[] = {stride[0], stride[3], stride[1], stride[4]};
    return ph__op_view(op, x, &PH_SHAPE(dim[0], dim[3], dim[1], dim[4]), strides, i * stride[2]);
}

/* Gradients that do not lie in one tensor are copied into one; none is zeros. */
static ph_tensor *pack_gradients(ph_tape *tape, ph_tensor *const grads[3])
{
    const ph_tensor *some = grads[0] ? grads[0] : grads[1] ? grads[1] : grads[2];
    const int64_t *dim = some->shape.dim;
    ph_tensor *whole = ph_empty(tape, some->dtype, PH_SHAPE(dim[0], dim[2], 3, dim[1], dim[3]));
    for (int i = 0; i < 3; i++) {
        ph_tensor *part = ph_transpose(tape, ph_select(tape, whole, 2, i), 1, 2);
        if (grads[i])
            ph_tensor_copy(tape, part, grads[i]);
        else
            ph_tensor_fill(tape, part, 0);
    }
    return whole;
}

static void split_heads_backward(ph__grad_call *call)
{
    ph_tensor *const *in = call->out_grads;
    ph__op op;
    if (!ph__op_begin(&op, call->tape, "heads' gradient", in, 3, 0))
        return;
    ph_tensor *whole = ph__attention_unpacked(&op, in);
    call->in_grads[0] = whole ? ph__op_done(&op, whole) : pack_gradients(call->tape, in);
}

static const ph__grad_def split_heads_grad = {.name = "heads", .backward = split_heads_backward};

bool ph__split_heads(ph_tape *tape, ph_tensor *out[3], ph_tensor *x)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "heads", in, 1, 1))
        return false;
    for (int i = 0; i < 3; i++)
        if (!(out[i] = view_heads(&op, x, i)))
            return false;
    if (op.tracked)
        ph__op_track(&op, &split_heads_grad, 0);
    return ph__op_done_n(&op, out, 3);
}
