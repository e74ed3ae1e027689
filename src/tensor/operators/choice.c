/* SPDX-License-Identifier: MIT */
/* tensor/operators/choice.c: comparison, logic, and choice between two values. */
#include "tensor/core/tensor.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_kernels.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

static ph_tensor *compare_elementwise(ph_tape *tape, const char *name,
                                      const ph__elementwise *elementwise, ph_tensor *a,
                                      ph_tensor *b, bool swap)
{
    ph_tensor *in[] = {a, b}, *order[] = {swap ? b : a, swap ? a : b};
    ph__autocast cast;
    ph__op op;
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_WIDEST, in, 2))
        return ph__autocast_end(&cast,
                                compare_elementwise(tape, name, elementwise, in[0], in[1], swap));
    if (!ph__op_begin(&op, tape, name, in, 2, 2))
        return NULL;
    return ph__op_done(&op, ph__elementwise_new(&op, elementwise, order, 0, 0));
}

ph_tensor *ph_eq(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    return compare_elementwise(tape, "eq", &ph__elementwise_eq, a, b, false);
}

ph_tensor *ph_ne(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    return compare_elementwise(tape, "ne", &ph__elementwise_ne, a, b, false);
}

ph_tensor *ph_lt(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    return compare_elementwise(tape, "lt", &ph__elementwise_lt, a, b, false);
}

ph_tensor *ph_le(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    return compare_elementwise(tape, "le", &ph__elementwise_le, a, b, false);
}

ph_tensor *ph_gt(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    return compare_elementwise(tape, "gt", &ph__elementwise_lt, a, b, true);
}

ph_tensor *ph_ge(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    return compare_elementwise(tape, "ge", &ph__elementwise_le, a, b, true);
}

ph_tensor *ph_logical_and(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    return compare_elementwise(tape, "logical_and", &ph__elementwise_logical_and, a, b, false);
}

ph_tensor *ph_logical_or(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    return compare_elementwise(tape, "logical_or", &ph__elementwise_logical_or, a, b, false);
}

ph_tensor *ph_logical_not(ph_tape *tape, ph_tensor *x)
{
    return ph__elementwise_call(tape, &ph__elementwise_logical_not, (ph_tensor *[]){x}, 0, 0);
}

/* ---- choice ---- */
static void where_backward(ph__grad_call *call)
{
    ph_tensor *in[] = {call->saved[0], call->out_grads[0]};
    if (call->needed[1])
        call->in_grads[1] = ph__elementwise_call(call->tape, &ph__elementwise_keep_where, in, 0, 0);
    if (call->needed[2])
        call->in_grads[2] = ph__elementwise_call(call->tape, &ph__elementwise_drop_where, in, 0, 0);
}
static const ph__grad_def where_grad = {"where", 0, where_backward, NULL};

ph_tensor *ph_where(ph_tape *tape, ph_tensor *cond, ph_tensor *a, ph_tensor *b)
{
    ph_tensor *in[] = {cond, a, b};
    ph__autocast cast;
    ph__op op;
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_WIDEST, in + 1, 2))
        return ph__autocast_end(&cast, ph_where(tape, cond, in[1], in[2]));
    if (!ph__op_begin(&op, tape, "where", in, 3, 3))
        return NULL;
    ph_tensor *y = ph__elementwise_new(&op, &ph__elementwise_where, in, 0, 0);
    if (y && op.tracked && ph__op_track(&op, &where_grad, 1))
        ph__op_save(&op, 0, cond);
    return ph__op_done(&op, y);
}

static void masked_fill_backward(ph__grad_call *call)
{
    ph_tensor *in[] = {call->saved[0], call->out_grads[0]};
    call->in_grads[0] = ph__elementwise_call(call->tape, &ph__elementwise_drop_where, in, 0, 0);
}
static const ph__grad_def masked_fill_grad = {"masked_fill", 0, masked_fill_backward, NULL};

ph_tensor *ph_masked_fill(ph_tape *tape, ph_tensor *x, ph_tensor *mask, double value)
{
    ph_tensor *in[] = {x, mask}, *order[] = {mask, x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "masked_fill", in, 2, 2))
        return NULL;
    ph_tensor *y = ph__elementwise_new(&op, &ph__elementwise_masked_fill, order, value, 0);
    if (y && op.tracked && ph__op_track(&op, &masked_fill_grad, 1))
        ph__op_save(&op, 0, mask);
    return ph__op_done(&op, y);
}
