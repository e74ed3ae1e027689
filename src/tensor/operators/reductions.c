/* SPDX-License-Identifier: MIT */
/* tensor/operators/reductions.c: sum, mean, max, argmax and norm over any axes, and their
 * gradients. */
#include "tensor/operators/reductions.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/elementwise_kernels.h"
#include "tensor/kernels/reduce.h"
#include "tensor/kernels/reduce_kernels.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <math.h>

/* ---- axes ---- */
static uint32_t all_axes(const ph_tensor *x)
{
    return (UINT32_C(1) << x->shape.rank) - 1;
}

/* Bit i: axis i goes. False: the tape has failed. */
static bool read_axes(uint32_t *gone, ph__op *op, const ph_tensor *x, const ph_axes *axes)
{
    *gone = 0;
    if (axes->count > PH_MAX_RANK)
        return ph__op_fail(op, PH_ERROR_ARGUMENT, "%zu axes; at most %d", axes->count, PH_MAX_RANK);
    for (size_t i = 0; i < axes->count; i++) {
        int axis = ph__axis(axes->axis[i], x->shape.rank);
        if (axis < 0)
            return ph__op_fail(op, PH_ERROR_ARGUMENT, "there is no axis %d", axes->axis[i]);
        if (*gone >> axis & 1)
            return ph__op_fail(op, PH_ERROR_ARGUMENT, "axis %d is named twice", axes->axis[i]);
        *gone |= UINT32_C(1) << axis;
    }
    return true;
}

static ph_shape shape_without(const ph_tensor *x, uint32_t gone, bool keep)
{
    ph_shape shape = {0};
    for (size_t d = 0; d < x->shape.rank; d++) {
        if (!(gone >> d & 1))
            shape.dim[shape.rank++] = x->shape.dim[d];
        else if (keep)
            shape.dim[shape.rank++] = 1;
    }
    return shape;
}

static int64_t length_of(const ph_tensor *x, uint32_t gone)
{
    int64_t length = 1;
    for (size_t d = 0; d < x->shape.rank; d++)
        length *= gone >> d & 1 ? x->shape.dim[d] : 1;
    return length;
}

/* ---- gradients ---- */
typedef struct state {
    ph_shape shape, kept; /* of x; of the result with its reduced axes as 1 */
    uint32_t gone;
    double p; /* the divisor of a sum, or the exponent of a norm */
} state;

/* With the reduced axes as 1, so that it broadcasts against x. */
static ph_tensor *with_reduced_axes(ph__grad_call *call, ph_tensor *y)
{
    const state *s = call->state;
    return ph_reshape(call->tape, y, s->kept);
}

static void sum_backward(ph__grad_call *call)
{
    const state *s = call->state;
    ph_tensor *g = with_reduced_axes(call, call->out_grads[0]);
    call->in_grads[0] =
        ph_expand(call->tape, s->p == 1 ? g : ph_mul_scalar(call->tape, g, 1 / s->p), s->shape);
}
static const ph__grad_def sum_grad = {"sum", sizeof(state), sum_backward, NULL};
static const ph__grad_def mean_grad = {"mean", sizeof(state), sum_backward, NULL};

static ph_axes axes_of(uint32_t gone)
{
    ph_axes axes = {0};
    for (int d = 0; d < PH_MAX_RANK; d++)
        if (gone >> d & 1)
            axes.axis[axes.count++] = d;
    return axes;
}

/* g where tie is set, shared equally by all that are set along the reduced axes. In f32 at
 * least: f16 counts no further than 2048. */
static ph_tensor *share_between_ties(ph__grad_call *call, ph_tensor *tie, ph_tensor *g)
{
    const state *s = call->state;
    ph_tape *tape = call->tape;
    const ph_dtype dtype = g->dtype, wide = dtype == PH_DTYPE_F64 ? PH_DTYPE_F64 : PH_DTYPE_F32;
    ph_tensor *count = ph_cast(tape, ph_sum_over(tape, tie, axes_of(s->gone), true), wide);
    ph_tensor *part = ph_cast(tape, ph_div(tape, ph_cast(tape, g, wide), count), dtype);
    ph_tensor *in[] = {tie, part};
    return ph__elementwise_call(tape, &ph__elementwise_keep_where, in, 0, 0);
}

/* saved: x and the result. */
static void max_backward(ph__grad_call *call)
{
    ph_tensor *x = call->saved[0], *y = with_reduced_axes(call, call->saved[1]),
              *g = with_reduced_axes(call, call->out_grads[0]);
    if (x && y && g)
        call->in_grads[0] = share_between_ties(call, ph_eq(call->tape, x, y), g);
}
static const ph__grad_def max_grad = {"max", sizeof(state), max_backward, NULL};

static void reduced_norm_backward(ph__grad_call *call)
{
    const state *s = call->state;
    ph_tape *tape = call->tape;
    ph_tensor *x = call->saved[0], *y = with_reduced_axes(call, call->saved[1]),
              *g = with_reduced_axes(call, call->out_grads[0]);
    if (!y || !g)
        return;
    ph_tensor *in[] = {g, x, y};
    if (s->p == INFINITY)
        in[0] = share_between_ties(call, ph_eq(tape, ph_abs(tape, x), y), g);
    if (s->p == 1 || s->p == INFINITY)
        call->in_grads[0] = ph__elementwise_call(tape, &ph__elementwise_abs_grad, in, 0, 0);
    else
        call->in_grads[0] = ph__elementwise_call(
            tape, s->p == 2 ? &ph__elementwise_norm2_grad : &ph__elementwise_normp_grad, in,
            s->p - 1, 0);
}
static const ph__grad_def norm_grad = {"norm", sizeof(state), reduced_norm_backward, NULL};

/* ---- operators ---- */
typedef struct reduction {
    const char *name;
    const ph__reduce *reduce;
    const ph__grad_def *grad; /* NULL: none */
    bool saves;               /* operand and result */
    bool index;               /* the result is i64 */
    double a, b, p;
} reduction;

static ph_tensor *apply_reduction(ph__op *op, const reduction *r, ph_tensor *x, uint32_t gone,
                                  bool keep)
{
    ph_shape shape = shape_without(x, gone, keep);
    ph_tensor *y = ph__op_output(op, r->index ? PH_DTYPE_I64 : x->dtype, &shape);
    if (!y || !ph__reduce_launch(op, r->reduce, y, x, gone, r->a, r->b))
        return NULL;
    state *s = r->grad && op->tracked ? ph__op_track(op, r->grad, r->saves ? 2 : 0) : NULL;
    if (s) {
        *s = (state){x->shape, shape_without(x, gone, true), gone, r->p};
        if (r->saves) {
            ph__op_save(op, 0, x);
            ph__op_save(op, 1, y);
        }
    }
    return ph__op_done(op, y);
}

/* axes NULL: all of them. False: the tape has failed. */
static bool begin_reduction(ph__op *op, uint32_t *gone, ph_tape *tape, const char *name,
                            ph_tensor *const *in, const ph_axes *axes)
{
    if (!ph__op_begin(op, tape, name, in, 1, 1))
        return false;
    *gone = all_axes(in[0]);
    return !axes || read_axes(gone, op, in[0], axes);
}

static ph_tensor *reduce_sum(ph_tape *tape, ph_tensor *x, const ph_axes *axes, bool keep)
{
    reduction r = {.name = "sum", .reduce = &ph__reduce_sum, .grad = &sum_grad, .a = 1, .p = 1};
    ph_tensor *in[] = {x};
    uint32_t gone;
    ph__autocast cast;
    ph__op op;
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_F32, in, 1))
        return ph__autocast_end(&cast, reduce_sum(tape, in[0], axes, keep));
    if (!begin_reduction(&op, &gone, tape, r.name, in, axes))
        return NULL;
    if (!ph_dtype_is_floating(x->dtype)) {
        r.reduce = &ph__reduce_count;
        r.index = true;
    }
    return apply_reduction(&op, &r, x, gone, keep);
}

static bool want_floating(ph__op *op, const ph_tensor *x)
{
    return ph_dtype_is_floating(x->dtype) ||
           ph__op_fail(op, PH_ERROR_ARGUMENT, "a floating dtype is wanted");
}

static ph_tensor *reduce_mean(ph_tape *tape, ph_tensor *x, const ph_axes *axes, bool keep)
{
    reduction r = {.name = "mean", .reduce = &ph__reduce_sum, .grad = &mean_grad};
    ph_tensor *in[] = {x};
    uint32_t gone;
    ph__op op;
    if (!begin_reduction(&op, &gone, tape, r.name, in, axes) || !want_floating(&op, x))
        return NULL;
    r.a = r.p = (double)length_of(x, gone);
    return apply_reduction(&op, &r, x, gone, keep);
}

static bool want_elements(ph__op *op, const ph_tensor *x, uint32_t gone)
{
    return length_of(x, gone) > 0 ||
           ph__op_fail(op, PH_ERROR_ARGUMENT, "there is no largest of no elements");
}

static ph_tensor *reduce_max(ph_tape *tape, ph_tensor *x, const ph_axes *axes, bool keep)
{
    const reduction r = {
        .name = "max", .reduce = &ph__reduce_max, .grad = &max_grad, .saves = true};
    ph_tensor *in[] = {x};
    uint32_t gone;
    ph__op op;
    if (!begin_reduction(&op, &gone, tape, r.name, in, axes) || !want_elements(&op, x, gone))
        return NULL;
    return apply_reduction(&op, &r, x, gone, keep);
}

static ph_tensor *reduce_norm(ph_tape *tape, ph_tensor *x, double p, const ph_axes *axes, bool keep)
{
    reduction r = {.name = "norm", .grad = &norm_grad, .saves = true, .a = p, .b = 1 / p, .p = p};
    ph_tensor *in[] = {x};
    uint32_t gone;
    ph__autocast cast;
    ph__op op;
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_F32, in, 1))
        return ph__autocast_end(&cast, reduce_norm(tape, in[0], p, axes, keep));
    if (!begin_reduction(&op, &gone, tape, r.name, in, axes) || !want_floating(&op, x))
        return NULL;
    if (!(p > 0))
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "a norm of p = %g; p must be above 0", p);
    r.reduce = p == 1          ? &ph__reduce_norm1
               : p == 2        ? &ph__reduce_norm2
               : p == INFINITY ? &ph__reduce_norminf
                               : &ph__reduce_normp;
    return apply_reduction(&op, &r, x, gone, keep);
}

ph_tensor *ph_sum(ph_tape *tape, ph_tensor *x)
{
    return reduce_sum(tape, x, NULL, false);
}

ph_tensor *ph_sum_over(ph_tape *tape, ph_tensor *x, ph_axes axes, bool keep)
{
    return reduce_sum(tape, x, &axes, keep);
}

ph_tensor *ph_mean(ph_tape *tape, ph_tensor *x)
{
    return reduce_mean(tape, x, NULL, false);
}

ph_tensor *ph_mean_over(ph_tape *tape, ph_tensor *x, ph_axes axes, bool keep)
{
    return reduce_mean(tape, x, &axes, keep);
}

ph_tensor *ph_max(ph_tape *tape, ph_tensor *x)
{
    return reduce_max(tape, x, NULL, false);
}

ph_tensor *ph_max_over(ph_tape *tape, ph_tensor *x, ph_axes axes, bool keep)
{
    return reduce_max(tape, x, &axes, keep);
}

ph_tensor *ph_argmax(ph_tape *tape, ph_tensor *x, int axis, bool keep)
{
    const reduction r = {.name = "argmax", .reduce = &ph__reduce_argmax, .index = true};
    const ph_axes axes = PH_AXES(axis);
    ph_tensor *in[] = {x};
    uint32_t gone;
    ph__op op;
    if (!begin_reduction(&op, &gone, tape, r.name, in, &axes) || !want_elements(&op, x, gone))
        return NULL;
    return apply_reduction(&op, &r, x, gone, keep);
}

ph_tensor *ph_norm(ph_tape *tape, ph_tensor *x, double p)
{
    return reduce_norm(tape, x, p, NULL, false);
}

ph_tensor *ph_norm_over(ph_tape *tape, ph_tensor *x, double p, ph_axes axes, bool keep)
{
    return reduce_norm(tape, x, p, &axes, keep);
}

/* ---- for the engine ---- */
ph_tensor *ph__sum_to(ph_tape *tape, ph_tensor *x, const ph_shape *shape)
{
    ph_tensor *in[] = {x};
    ph_shape broadcast;
    uint32_t gone = 0;
    ph__op op;
    if (!ph__op_begin(&op, tape, "sum_to", in, 1, 1))
        return NULL;
    if (ph_shape_equal(&x->shape, shape))
        return x;
    if (!ph__shape_broadcast(&broadcast, shape, &x->shape) ||
        !ph_shape_equal(&broadcast, &x->shape))
        return ph__op_fail(&op, PH_ERROR_ARGUMENT,
                           "the gradient's shape is no broadcast of the operand's");
    for (size_t d = 0, front = x->shape.rank - shape->rank; d < x->shape.rank; d++)
        if (d < front || (shape->dim[d - front] == 1 && x->shape.dim[d] != 1))
            gone |= UINT32_C(1) << d;
    if (length_of(x, gone) != 1)
        x = ph_sum_over(tape, x, axes_of(gone), true);
    return ph_reshape(tape, x, *shape);
}

ph_tensor *ph__sum_rows(ph_tape *tape, ph_tensor *x, ph_dtype dtype)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!x || x->dtype == dtype)
        return x ? ph__sum_to(tape, x, &(ph_shape){1, {ph_tensor_dim(x, -1)}}) : NULL;
    if (!ph__op_begin(&op, tape, "sum_rows", in, 1, 1))
        return NULL;
    size_t last = x->shape.rank - 1;
    ph_tensor *y = ph__op_output(&op, dtype, &PH_SHAPE(x->shape.dim[last]));
    if (!y || !ph__reduce_launch(&op, &ph__reduce_sum_wide, y, x, all_axes(x) >> 1, 1, 0))
        return NULL;
    return ph__op_done(&op, y);
}
