/* SPDX-License-Identifier: MIT */
/* tensor/operators/functions.c: functions of one element: exp, relu, gelu and their like. */
#include "tensor/core/tensor.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_kernels.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

typedef enum save {
    SAVE_OPERAND,
    SAVE_RESULT
} save;

/* The state for backward: the function, and the number of the call. */
typedef struct state {
    const ph__elementwise *elementwise;
    double a;
} state;

static void function_backward(ph__grad_call *call)
{
    const state *s = call->state;
    ph_tensor *in[] = {call->out_grads[0], call->saved[0]};
    call->in_grads[0] = ph__elementwise_call(call->tape, s->elementwise, in, s->a, 0);
}

static ph_tensor *apply_function(ph_tape *tape, const ph__elementwise *elementwise,
                                 const ph__grad_def *def, const ph__elementwise *grad, save what,
                                 ph_tensor *x, double a)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, elementwise->name, in, 1, 1))
        return NULL;
    ph_tensor *y = ph__elementwise_new(&op, elementwise, in, a, 0);
    state *s = y && op.tracked ? ph__op_track(&op, def, 1) : NULL;
    if (s) {
        *s = (state){grad, a};
        ph__op_save(&op, 0, what == SAVE_RESULT ? y : x);
    }
    return ph__op_done(&op, y);
}

/* Whose results leave f16's range, or need more of its digits than there are. */
static ph_tensor *apply_in_f32(ph_tape *tape, const ph__elementwise *elementwise,
                               const ph__grad_def *def, const ph__elementwise *grad, save what,
                               ph_tensor *x, double a)
{
    ph__autocast cast;
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_F32, &x, 1))
        return ph__autocast_end(&cast, apply_function(tape, elementwise, def, grad, what, x, a));
    return apply_function(tape, elementwise, def, grad, what, x, a);
}

#define FUNCTION(name, grad, what, by)                                                             \
    static const ph__grad_def name##_def = {#name, sizeof(state), function_backward, NULL};        \
    ph_tensor *ph_##name(ph_tape *tape, ph_tensor *x)                                              \
    {                                                                                              \
        return by(tape, &ph__elementwise_##name, &name##_def, &ph__elementwise_##grad, what, x,    \
                  0);                                                                              \
    }
FUNCTION(exp, mul, SAVE_RESULT, apply_in_f32)
FUNCTION(log, log_grad, SAVE_OPERAND, apply_in_f32)
FUNCTION(sqrt, sqrt_grad, SAVE_RESULT, apply_function)
FUNCTION(rsqrt, rsqrt_grad, SAVE_RESULT, apply_in_f32)
FUNCTION(square, square_grad, SAVE_OPERAND, apply_in_f32)
FUNCTION(tanh, tanh_grad, SAVE_RESULT, apply_function)
FUNCTION(sigmoid, sigmoid_grad, SAVE_RESULT, apply_function)
FUNCTION(relu, relu_grad, SAVE_RESULT, apply_function)
FUNCTION(gelu, gelu_grad, SAVE_OPERAND, apply_function)
FUNCTION(gelu_tanh, gelu_tanh_grad, SAVE_OPERAND, apply_function)
FUNCTION(silu, silu_grad, SAVE_OPERAND, apply_function)

static const ph__grad_def leaky_relu_def = {"leaky_relu", sizeof(state), function_backward, NULL};

ph_tensor *ph_leaky_relu(ph_tape *tape, ph_tensor *x, double slope)
{
    return apply_function(tape, &ph__elementwise_leaky_relu, &leaky_relu_def,
                          &ph__elementwise_leaky_relu_grad, SAVE_OPERAND, x, slope);
}
