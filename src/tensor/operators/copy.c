/* SPDX-License-Identifier: MIT */
/* tensor/operators/copy.c: copies and casts, and changes in place. */
#include "tensor/operators/copy.h"
#include "tensor/core/describe.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_cast.h"
#include "tensor/kernels/elementwise_kernels.h"
#include "tensor/operators/transfer.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <math.h>

/* ---- copies ---- */
static void copy_backward(ph__grad_call *call)
{
    call->in_grads[0] = call->out_grads[0];
}
static const ph__grad_def clone_grad = {"clone", 0, copy_backward, NULL};
static const ph__grad_def contiguous_grad = {"contiguous", 0, copy_backward, NULL};

static ph_tensor *copy_tensor(ph__op *op, ph_tensor *x, const ph__grad_def *grad)
{
    ph_tensor *y = ph__op_output(op, x->dtype, &x->shape);
    if (!y || !ph__elementwise_copy(op, y, x))
        return NULL;
    if (op->tracked)
        (void)ph__op_track(op, grad, 0);
    return ph__op_done(op, y);
}

ph_tensor *ph_clone(ph_tape *tape, ph_tensor *x)
{
    ph_tensor *in[] = {x};
    ph__op op;
    return ph__op_begin(&op, tape, "clone", in, 1, 1) ? copy_tensor(&op, x, &clone_grad) : NULL;
}

ph_tensor *ph_contiguous(ph_tape *tape, ph_tensor *x)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "contiguous", in, 1, 1))
        return NULL;
    return x->contiguous ? x : copy_tensor(&op, x, &contiguous_grad);
}

ph_tensor *ph__dense(ph_tape *tape, ph_tensor *x)
{
    if (!x || x->contiguous)
        return x;
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    ph_tensor *copy = ph_contiguous(tape, x);
    ph_tape_set_grad_enabled(tape, enabled);
    return copy;
}

typedef struct cast_state {
    ph_dtype dtype; /* of x */
} cast_state;

static void cast_backward(ph__grad_call *call)
{
    const cast_state *state = call->state;
    call->in_grads[0] = ph_cast(call->tape, call->out_grads[0], state->dtype);
}
static const ph__grad_def cast_grad = {"cast", sizeof(cast_state), cast_backward, NULL};

static ph_tensor *end_cast(ph__op *op, ph_tensor *y)
{
    cast_state *state =
        op->tracked && ph_dtype_is_floating(y->dtype) ? ph__op_track(op, &cast_grad, 0) : NULL;
    if (state)
        state->dtype = op->in[0]->dtype;
    return ph__op_done(op, y);
}

/* The second one has ended before the first begins, so that neither takes the other's result for
 * scratch of its own; the launch is the first one's. */
bool ph__cast_two(ph_tape *tape, ph_tensor *out[2], ph_tensor *const in[2], ph_dtype dtype)
{
    ph__op first, second;
    out[0] = out[1] = NULL;
    if (!ph__op_begin(&second, tape, "cast", in + 1, 1, 1))
        return false;
    ph_tensor *y = ph__op_output(&second, dtype, &in[1]->shape);
    out[1] = y ? end_cast(&second, y) : NULL;
    if (!out[1] || !ph__op_begin(&first, tape, "cast", in, 1, 1))
        return false;
    out[0] = ph__op_output(&first, dtype, &in[0]->shape);
    if (!out[0] || !ph__elementwise_cast_two(&first, out, in))
        return false;
    return end_cast(&first, out[0]) != NULL;
}

ph_tensor *ph_cast(ph_tape *tape, ph_tensor *x, ph_dtype dtype)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "cast", in, 1, 1))
        return NULL;
    if (ph_dtype_size(dtype) == 0)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "%d is no dtype", (int)dtype);
    if (x->dtype == dtype)
        return x;
    ph_tensor *y = ph__op_output(&op, dtype, &x->shape);
    return y && ph__elementwise_copy(&op, y, x) ? end_cast(&op, y) : NULL;
}

/* ---- in place ---- */
/* Where elements of in[0] share memory, what is written there would depend on the order. */
bool ph__op_change_begin(ph__op *op, ph_tape *tape, const char *name, ph_tensor *const *in,
                         size_t count)
{
    if (!ph__op_begin(op, tape, name, in, count, count))
        return false;
    const char *shared = ph__tensor_shared_elements(in[0]);
    return !shared ||
           ph__op_fail(op, PH_ERROR_ARGUMENT,
                       "it %s: several of its elements are one; ph_contiguous it first", shared);
}

static bool check_whole(ph__op *op, ph_dtype dtype, double value)
{
    return ph_dtype_is_floating(dtype) || value == trunc(value) ||
           ph__op_fail(op, PH_ERROR_ARGUMENT, "%g is no integer, as the dtype is", value);
}

/* src, made ready to be read while dst is written: a copy where one would write what the other
 * has still to read. */
static ph_tensor *copy_where_shared(ph__op *op, const ph_tensor *dst, ph_tensor *src)
{
    bool same = src->data == dst->data && src->dtype == dst->dtype &&
                ph_shape_equal(&src->shape, &dst->shape);
    for (size_t i = 0; same && i < dst->shape.rank; i++)
        same = src->stride[i] == dst->stride[i] || src->shape.dim[i] == 1;
    if (same || !ph__tensors_overlap(dst, src))
        return src;
    ph_tensor *copy = ph__op_output(op, src->dtype, &src->shape);
    return copy && ph__elementwise_copy(op, copy, src) ? copy : NULL;
}

static bool check_fits(ph__op *op, const ph_tensor *dst, const ph_tensor *src)
{
    ph_shape shape;
    char from[PH__DESCRIBE], to[PH__DESCRIBE];
    if (ph__shape_broadcast(&shape, &dst->shape, &src->shape) &&
        ph_shape_equal(&shape, &dst->shape))
        return true;
    return ph__op_fail(op, PH_ERROR_ARGUMENT,
                       "the source does not broadcast to what changes: from %s to %s",
                       ph__describe(from, src), ph__describe(to, dst));
}

void ph_tensor_fill(ph_tape *tape, ph_tensor *dst, double value)
{
    ph_tensor *in[] = {dst};
    ph__op op;
    if (!ph__op_change_begin(&op, tape, "tensor_fill", in, 1) || !ph__op_change(&op, dst))
        return;
    if (ph__elementwise_launch(&op, &ph__elementwise_fill, dst, NULL, value, 0))
        (void)ph__op_done(&op, NULL);
}

static void copy_between_devices(ph_tape *tape, ph_tensor *dst, ph_tensor *src)
{
    ph_tensor *in[] = {dst};
    ph__op op;
    if (!ph__op_change_begin(&op, tape, "tensor_copy", in, 1))
        return;
    if (ph__tensor_is_overwritten(src)) {
        ph_tape_check(tape, ph__fail_overwritten(src, op.name, "operand 1"));
        return;
    }
    if (src->dtype != dst->dtype || !ph_shape_equal(&src->shape, &dst->shape) || !src->contiguous ||
        !dst->contiguous)
        ph__op_fail(
            &op, PH_ERROR_ARGUMENT,
            "the source is of another device: both must be contiguous, of one dtype and shape");
    else if (ph__op_change(&op, dst) &&
             ph__op_check(&op, ph__tensor_copy_contents(tape, dst, src, "ph_tensor_copy")))
        (void)ph__op_done(&op, NULL);
}

void ph_tensor_copy(ph_tape *tape, ph_tensor *dst, ph_tensor *src)
{
    ph_tensor *in[] = {dst, src};
    ph__op op;
    if (dst && src && src->storage->backend != dst->storage->backend) {
        copy_between_devices(tape, dst, src);
        return;
    }
    if (!ph__op_change_begin(&op, tape, "tensor_copy", in, 2) || !check_fits(&op, dst, src) ||
        !ph__op_change(&op, dst))
        return;
    ph_tensor *from = copy_where_shared(&op, dst, src);
    if (from && ph__elementwise_copy(&op, dst, from))
        (void)ph__op_done(&op, NULL);
}

void ph_tensor_add(ph_tape *tape, ph_tensor *dst, ph_tensor *src, double alpha)
{
    ph_tensor *in[] = {dst, src};
    ph__op op;
    if (!ph__op_change_begin(&op, tape, "tensor_add", in, 2) || !check_fits(&op, dst, src) ||
        !check_whole(&op, dst->dtype, alpha))
        return;
    if (src->dtype != dst->dtype || dst->dtype == PH_DTYPE_BOOL) {
        ph__op_fail(&op, PH_ERROR_ARGUMENT,
                    "both must be of one dtype other than bool; ph_cast one of them");
        return;
    }
    ph_tensor *from = ph__op_change(&op, dst) ? copy_where_shared(&op, dst, src) : NULL;
    ph_tensor *operands[] = {dst, from};
    if (from &&
        ph__elementwise_launch(&op, alpha == 1 ? &ph__elementwise_add : &ph__elementwise_add_scaled,
                               dst, operands, alpha, 0))
        (void)ph__op_done(&op, NULL);
}

void ph_tensor_scale(ph_tape *tape, ph_tensor *dst, double factor)
{
    ph_tensor *in[] = {dst};
    ph__op op;
    if (!ph__op_change_begin(&op, tape, "tensor_scale", in, 1) ||
        !check_whole(&op, dst->dtype, factor))
        return;
    if (dst->dtype == PH_DTYPE_BOOL)
        ph__op_fail(&op, PH_ERROR_ARGUMENT, "all dtypes but bool are taken");
    else if (ph__op_change(&op, dst) &&
             ph__elementwise_launch(&op, &ph__elementwise_mul_scalar, dst, in, factor, 0))
        (void)ph__op_done(&op, NULL);
}
