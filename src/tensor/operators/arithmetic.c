/* SPDX-License-Identifier: MIT */
/* tensor/operators/arithmetic.c: arithmetic of two tensors, and of a tensor and a number. */
#include "tensor/core/tensor.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_kernels.h"
#include "tensor/kernels/elementwise_mixed.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <math.h>

/* ---- two tensors ---- a gradient has the result's shape; the engine sums it to the operand's. */
static ph_tensor *apply_binary(ph_tape *tape, const ph__elementwise *elementwise,
                               const ph__grad_def *grad, bool saves, ph_tensor *a, ph_tensor *b)
{
    ph_tensor *in[] = {a, b};
    ph__autocast cast;
    ph__op op;
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_WIDEST, in, 2))
        return ph__autocast_end(&cast, apply_binary(tape, elementwise, grad, saves, in[0], in[1]));
    if (!ph__op_begin(&op, tape, elementwise->name, in, 2, 2))
        return NULL;
    ph_tensor *y = ph__elementwise_new(&op, elementwise, in, 0, 0);
    if (y && op.tracked && ph__op_track(&op, grad, saves ? 2 : 0) && saves) {
        ph__op_save(&op, 0, a);
        ph__op_save(&op, 1, b);
    }
    return ph__op_done(&op, y);
}

static void add_backward(ph__grad_call *call)
{
    for (size_t i = 0; i < 2; i++)
        if (call->needed[i])
            call->in_grads[i] = call->out_grads[0];
}
static const ph__grad_def add_grad = {"add", 0, add_backward, NULL};

static void sub_backward(ph__grad_call *call)
{
    if (call->needed[0])
        call->in_grads[0] = call->out_grads[0];
    if (call->needed[1])
        call->in_grads[1] = ph_neg(call->tape, call->out_grads[0]);
}
static const ph__grad_def sub_grad = {"sub", 0, sub_backward, NULL};

static void mul_backward(ph__grad_call *call)
{
    ph_tensor *g = call->out_grads[0];
    for (size_t i = 0; i < 2; i++)
        if (call->needed[i])
            call->in_grads[i] = ph_mul(call->tape, g, call->saved[1 - i]);
}
static const ph__grad_def mul_grad = {"mul", 0, mul_backward, NULL};

static void div_backward(ph__grad_call *call)
{
    ph_tensor *in[] = {call->out_grads[0], call->saved[0], call->saved[1]};
    if (call->needed[0])
        call->in_grads[0] = ph_div(call->tape, in[0], in[2]);
    if (call->needed[1])
        call->in_grads[1] = ph__elementwise_call(call->tape, &ph__elementwise_div_grad, in, 0, 0);
}
static const ph__grad_def div_grad = {"div", 0, div_backward, NULL};

static void extremum_backward(ph__grad_call *call, const ph__elementwise *elementwise)
{
    for (size_t i = 0; i < 2; i++) {
        ph_tensor *in[] = {call->out_grads[0], call->saved[i], call->saved[1 - i]};
        if (call->needed[i])
            call->in_grads[i] = ph__elementwise_call(call->tape, elementwise, in, 0, 0);
    }
}

static void maximum_backward(ph__grad_call *call)
{
    extremum_backward(call, &ph__elementwise_maximum_grad);
}
static const ph__grad_def maximum_grad = {"maximum", 0, maximum_backward, NULL};

static void minimum_backward(ph__grad_call *call)
{
    extremum_backward(call, &ph__elementwise_minimum_grad);
}
static const ph__grad_def minimum_grad = {"minimum", 0, minimum_backward, NULL};

/* ---- f32 and a half type, under autocast ---- what a cast of the latter would give, forward and
 * backward, without the f32 in between. */
typedef struct mixed_state {
    ph_dtype dtype[2]; /* of the operands */
} mixed_state;

static void add_mixed_backward(ph__grad_call *call)
{
    const mixed_state *state = call->state;
    for (size_t i = 0; i < 2; i++)
        if (call->needed[i])
            call->in_grads[i] = ph_cast(call->tape, call->out_grads[0], state->dtype[i]);
}
static const ph__grad_def add_mixed_grad = {"add", sizeof(mixed_state), add_mixed_backward, NULL};

static bool is_half(ph_dtype dtype)
{
    return dtype == PH_DTYPE_F16 || dtype == PH_DTYPE_BF16;
}

static bool are_mixed(const ph_tensor *a, const ph_tensor *b)
{
    return a && b && ph_shape_equal(&a->shape, &b->shape) &&
           (is_half(a->dtype) ? b->dtype == PH_DTYPE_F32
                              : a->dtype == PH_DTYPE_F32 && is_half(b->dtype));
}

static ph_tensor *add_mixed(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    ph_tensor *in[] = {a, b};
    ph__op op;
    if (!ph__op_begin(&op, tape, "add", in, 2, 2))
        return NULL;
    bool turned = is_half(a->dtype);
    ph_tensor *y = ph__op_output(&op, PH_DTYPE_F32, &a->shape);
    if (!y || !ph__elementwise_add_mixed(&op, y, turned ? b : a, turned ? a : b))
        return NULL;
    mixed_state *state = op.tracked ? ph__op_track(&op, &add_mixed_grad, 0) : NULL;
    if (state)
        *state = (mixed_state){{a->dtype, b->dtype}};
    return ph__op_done(&op, y);
}

ph_tensor *ph_add(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    if (ph__autocast_is_on(tape) && are_mixed(a, b))
        return add_mixed(tape, a, b);
    return apply_binary(tape, &ph__elementwise_add, &add_grad, false, a, b);
}

ph_tensor *ph_sub(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    return apply_binary(tape, &ph__elementwise_sub, &sub_grad, false, a, b);
}

ph_tensor *ph_mul(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    return apply_binary(tape, &ph__elementwise_mul, &mul_grad, true, a, b);
}

ph_tensor *ph_div(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    return apply_binary(tape, &ph__elementwise_div, &div_grad, true, a, b);
}

ph_tensor *ph_maximum(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    return apply_binary(tape, &ph__elementwise_maximum, &maximum_grad, true, a, b);
}

ph_tensor *ph_minimum(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    return apply_binary(tape, &ph__elementwise_minimum, &minimum_grad, true, a, b);
}

/* ---- a tensor and a number ---- */
typedef struct scalars {
    double a, b;
} scalars;

/* A number that an integer dtype would cut is an error: nothing is promoted. */
static bool check_number(ph__op *op, const ph_tensor *x, double value, bool may_be_infinite)
{
    if (ph_dtype_is_floating(x->dtype) ||
        (value == trunc(value) && (may_be_infinite || isfinite(value))))
        return true;
    return ph__op_fail(op, PH_ERROR_ARGUMENT,
                       "%g is no integer, as the operand's dtype is; ph_cast it first", value);
}

static ph_tensor *with_numbers(ph_tape *tape, const ph__elementwise *elementwise,
                               const ph__grad_def *grad, bool saves, ph_tensor *x, double a,
                               double b)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, elementwise->name, in, 1, 1))
        return NULL;
    bool bounds = elementwise == &ph__elementwise_clamp;
    if (!check_number(&op, x, a, bounds) || !check_number(&op, x, b, bounds))
        return NULL;
    ph_tensor *y = ph__elementwise_new(&op, elementwise, in, a, b);
    scalars *state = y && op.tracked ? ph__op_track(&op, grad, saves) : NULL;
    if (state) {
        *state = (scalars){a, b};
        if (saves)
            ph__op_save(&op, 0, x);
    }
    return ph__op_done(&op, y);
}

static void pass_backward(ph__grad_call *call)
{
    call->in_grads[0] = call->out_grads[0];
}
static const ph__grad_def add_scalar_grad = {"add_scalar", sizeof(scalars), pass_backward, NULL};

static void mul_scalar_backward(ph__grad_call *call)
{
    const scalars *s = call->state;
    call->in_grads[0] = ph_mul_scalar(call->tape, call->out_grads[0], s->a);
}
static const ph__grad_def mul_scalar_grad = {"mul_scalar", sizeof(scalars), mul_scalar_backward,
                                             NULL};

static void neg_backward(ph__grad_call *call)
{
    call->in_grads[0] = ph_neg(call->tape, call->out_grads[0]);
}
static const ph__grad_def neg_grad = {"neg", sizeof(scalars), neg_backward, NULL};

static void saved_backward(ph__grad_call *call, const ph__elementwise *elementwise)
{
    const scalars *s = call->state;
    ph_tensor *in[] = {call->out_grads[0], call->saved[0]};
    call->in_grads[0] = ph__elementwise_call(call->tape, elementwise, in, s->a, s->b);
}

static void pow_backward(ph__grad_call *call)
{
    saved_backward(call, &ph__elementwise_pow_grad);
}
static const ph__grad_def pow_grad = {"pow_scalar", sizeof(scalars), pow_backward, NULL};

static void abs_backward(ph__grad_call *call)
{
    saved_backward(call, &ph__elementwise_abs_grad);
}
static const ph__grad_def abs_grad = {"abs", sizeof(scalars), abs_backward, NULL};

static void clamp_backward(ph__grad_call *call)
{
    saved_backward(call, &ph__elementwise_clamp_grad);
}
static const ph__grad_def clamp_grad = {"clamp", sizeof(scalars), clamp_backward, NULL};

ph_tensor *ph_add_scalar(ph_tape *tape, ph_tensor *x, double value)
{
    return with_numbers(tape, &ph__elementwise_add_scalar, &add_scalar_grad, false, x, value, 0);
}

ph_tensor *ph_mul_scalar(ph_tape *tape, ph_tensor *x, double value)
{
    return with_numbers(tape, &ph__elementwise_mul_scalar, &mul_scalar_grad, false, x, value, 0);
}

ph_tensor *ph_pow_scalar(ph_tape *tape, ph_tensor *x, double exponent)
{
    ph__autocast cast;
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_F32, &x, 1))
        return ph__autocast_end(&cast, ph_pow_scalar(tape, x, exponent));
    return exponent == 2
               ? ph_square(tape, x)
               : with_numbers(tape, &ph__elementwise_pow_scalar, &pow_grad, true, x, exponent, 0);
}

ph_tensor *ph_neg(ph_tape *tape, ph_tensor *x)
{
    return with_numbers(tape, &ph__elementwise_neg, &neg_grad, false, x, 0, 0);
}

ph_tensor *ph_abs(ph_tape *tape, ph_tensor *x)
{
    return with_numbers(tape, &ph__elementwise_abs, &abs_grad, true, x, 0, 0);
}

ph_tensor *ph_clamp(ph_tape *tape, ph_tensor *x, double low, double high)
{
    return with_numbers(tape, &ph__elementwise_clamp, &clamp_grad, true, x, low, high);
}
