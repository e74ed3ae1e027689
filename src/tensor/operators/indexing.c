/* SPDX-License-Identifier: MIT */
/* tensor/operators/indexing.c: embedding, index_select, gather, scatter and scatter_add. */
#include "tensor/kernels/indexing.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/operators/copy.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

/* Columns that are no longer than this, or that are so many, are added by a thread each; others are
 * sorted. */
enum {
    COLUMN_LENGTH = 32,
    COLUMN_COUNT = 16384
};

/* The value of a read out of range: NaN, or 0; in each element of a word of 8 bytes. */
static uint64_t bad_value(ph_dtype dtype)
{
    switch (dtype) {
    case PH_DTYPE_F32:
        return 0x7fc000007fc00000u;
    case PH_DTYPE_F64:
        return 0x7ff8000000000000u;
    case PH_DTYPE_F16:
        return 0x7e007e007e007e00u;
    case PH_DTYPE_BF16:
        return 0x7fc07fc07fc07fc0u;
    default:
        return 0;
    }
}

static bool refuse(ph__op *op, const char *why)
{
    ph__op_fail(op, PH_ERROR_ARGUMENT, "%s", why);
    return false;
}

/* ---- whole slices: embedding and index_select ---- x as [outer][n][inner]. */
typedef struct take_state {
    ph_shape shape; /* of x */
    int64_t outer, n, inner;
} take_state;

static take_state take_state_of(const ph_tensor *x, size_t axis)
{
    return (take_state){.shape = x->shape,
                        .outer = ph__shape_product(&x->shape, 0, axis),
                        .n = x->shape.dim[axis],
                        .inner = ph__shape_product(&x->shape, axis + 1, x->shape.rank)};
}

/* In the largest words that divide a slice. */
static bool launch_take(ph__op *op, const ph_tensor *x, const ph_tensor *index, ph_tensor *out,
                        const take_state *state)
{
    size_t size = ph_dtype_size(x->dtype), bytes = (size_t)state->inner * size, word = 16;
    if (out->count == 0)
        return true;
    while (word > size && (bytes | (uintptr_t)x->data | (uintptr_t)out->data) % word != 0)
        word /= 2;
    int64_t inner = (int64_t)(bytes / word), total = state->outer * index->count * inner;
    ph__take_args args = {.x = x->data,
                          .index = index->data,
                          .out = out->data,
                          .total = total,
                          .n = state->n,
                          .count = index->count,
                          .inner = inner,
                          .wide = index->dtype == PH_DTYPE_I64,
                          .bad = bad_value(x->dtype)};
    return ph__op_launch(op, &ph__take_kernels[ph__size_slot(word)],
                         (uint64_t)ph__ceil_div(total, PH__TAKE_BLOCK), 256, 0, &args);
}

/* Saved: the index, dense. */
static void take_backward(ph__grad_call *call)
{
    const take_state *state = call->state;
    ph_tensor *in[] = {ph__dense(call->tape, call->out_grads[0]), call->saved[0]};
    ph__op op;
    if (!ph__op_begin(&op, call->tape, "backward of an index", in, 2, 2))
        return;
    ph_tensor *dx = ph_zeros(call->tape, in[0]->dtype, state->shape);
    ph__places at = {.n = state->n, .step = 1};
    ph__sorted sorted;
    if (dx && ph__sort_index(&op, &sorted, in[1], &at, state->n) &&
        ph__add_sorted(&op, &sorted, in[0], dx, state->outer, state->n, state->inner, false))
        call->in_grads[0] = ph__op_done(&op, dx);
}
static const ph__grad_def take_grad = {"take", sizeof(take_state), take_backward, NULL};

/* in: x, index. */
static ph_tensor *take_along_axis(ph__op *op, size_t axis, const ph_shape *shape)
{
    ph_tensor *x = ph__dense(op->tape, op->in[0]), *index = ph__dense(op->tape, op->in[1]);
    ph_tensor *out = x ? ph__op_output(op, x->dtype, shape) : NULL;
    if (!index || !out)
        return NULL;
    take_state state = take_state_of(x, axis);
    if (!launch_take(op, x, index, out, &state))
        return NULL;
    if (op->tracked) {
        take_state *kept = ph__op_track(op, &take_grad, 1);
        if (kept)
            *kept = state;
        ph__op_save(op, 0, index);
    }
    return ph__op_done(op, out);
}

ph_tensor *ph_embedding(ph_tape *tape, ph_tensor *weight, ph_tensor *index)
{
    ph_tensor *in[] = {weight, index};
    ph__op op;
    if (!ph__op_begin(&op, tape, "embedding", in, 2, 2))
        return NULL;
    if (weight->shape.rank != 2 || !ph__dtype_is_index(index->dtype) ||
        index->shape.rank >= PH_MAX_RANK)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT,
                           "weight must have two axes, index be of i64 or i32 and have at most %d",
                           PH_MAX_RANK - 1);
    ph_shape shape = index->shape;
    shape.dim[shape.rank++] = weight->shape.dim[1];
    return take_along_axis(&op, 0, &shape);
}

ph_tensor *ph_index_select(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index)
{
    ph_tensor *in[] = {x, index};
    ph__op op;
    if (!ph__op_begin(&op, tape, "index_select", in, 2, 2))
        return NULL;
    int at = ph__axis(axis, x->shape.rank);
    if (at < 0)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "there is no axis %d", axis);
    if (!ph__dtype_is_index(index->dtype) || index->shape.rank != 1)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT,
                           "the index must be of i64 or i32, and have one axis");
    ph_shape shape = x->shape;
    shape.dim[at] = index->count;
    return take_along_axis(&op, (size_t)at, &shape);
}

/* ---- single elements: gather, scatter, scatter_add ---- */
typedef struct element_state {
    ph_shape shape, src_shape; /* of x; of src */
    size_t axis;
} element_state;

/* in: x, index, perhaps src. False: the tape has failed. */
static bool check_index(ph__op *op, int wanted, size_t *axis)
{
    const ph_tensor *x = op->in[0], *index = op->in[1], *src = op->in_count > 2 ? op->in[2] : NULL;
    int at = ph__axis(wanted, x->shape.rank);
    if (at < 0) {
        ph__op_fail(op, PH_ERROR_ARGUMENT, "there is no axis %d", wanted);
        return false;
    }
    *axis = (size_t)at;
    if (!ph__dtype_is_index(index->dtype))
        return refuse(op, "the index must be of i64 or i32");
    if (index->shape.rank != x->shape.rank || (src && src->shape.rank != x->shape.rank))
        return refuse(op, "all must have as many axes");
    if (src && src->dtype != x->dtype)
        return refuse(op,
                      "the operand and what is written must be of one dtype; ph_cast one of them");
    for (size_t i = 0; i < x->shape.rank; i++)
        if ((i != *axis && index->shape.dim[i] > x->shape.dim[i]) ||
            (src && index->shape.dim[i] > src->shape.dim[i]))
            return refuse(
                op, "the index must not be longer than the operand along other axes, nor than what "
                    "is written along any");
    return true;
}

/* The first elements along each axis, as many as the index has; dense, without history. */
static ph_tensor *narrowed(ph_tape *tape, ph_tensor *src, const ph_shape *shape)
{
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    for (size_t i = 0; src && i < shape->rank; i++)
        if (src->shape.dim[i] != shape->dim[i])
            src = ph_slice(tape, src, (int)i, 0, shape->dim[i]);
    src = ph__dense(tape, src);
    ph_tape_set_grad_enabled(tape, enabled);
    return src;
}

/* And back: zeros behind. Called in backward. */
static ph_tensor *widened(ph_tape *tape, ph_tensor *grad, const ph_shape *shape)
{
    if (!grad || ph_shape_equal(&grad->shape, shape))
        return grad;
    ph_tensor *all = ph_zeros(tape, grad->dtype, *shape), *part = all;
    for (size_t i = 0; part && i < shape->rank; i++)
        if (shape->dim[i] != grad->shape.dim[i])
            part = ph_slice(tape, part, (int)i, 0, grad->shape.dim[i]);
    if (part)
        ph_tensor_copy(tape, part, grad);
    return all;
}

/* x[index] along axis, in the index's shape. index is dense. */
static ph_tensor *launch_gather(ph__op *op, const ph_tensor *x, size_t axis, const ph_tensor *index,
                                uint64_t bad)
{
    ph_tensor *out = ph__op_output(op, x->dtype, &index->shape);
    if (!out)
        return NULL;
    ph__gather_args args = {.x = x->data,
                            .index = index->data,
                            .out = out->data,
                            .at = ph__places_of(x, axis, &index->shape),
                            .total = index->count,
                            .wide = index->dtype == PH_DTYPE_I64,
                            .bad = bad};
    ph__kernel_def *def = &ph__gather_kernels[ph__size_slot(ph_dtype_size(x->dtype))];
    return ph__op_launch(op, def, (uint64_t)ph__ceil_div(args.total, PH__INDEX_BLOCK),
                         PH__INDEX_BLOCK, 0, &args)
               ? out
               : NULL;
}

/* A thread for each column. */
static bool add_columns(ph__op *op, ph_tensor *out, size_t axis, const ph_tensor *index,
                        const ph_tensor *src)
{
    ph__places all = ph__places_of(out, axis, &index->shape);
    ph__add_columns_args args = {.src = src->data,
                                 .index = index->data,
                                 .out = out->data,
                                 .at = {.n = all.n, .step = all.step},
                                 .length = index->shape.dim[axis],
                                 .inner =
                                     ph__shape_product(&index->shape, axis + 1, index->shape.rank),
                                 .wide = index->dtype == PH_DTYPE_I64};
    args.columns = ph__shape_product(&index->shape, 0, axis) * args.inner;
    for (int64_t i = 0; i < all.rank; i++)
        if (i != (int64_t)axis) {
            args.at.dim[args.at.rank] = all.dim[i];
            args.at.stride[args.at.rank++] = all.stride[i];
        }
    return ph__op_launch(op, ph__add_columns_kernel(out->dtype),
                         (uint64_t)ph__ceil_div(args.columns, PH__COLUMN_BLOCK), PH__COLUMN_BLOCK,
                         0, &args);
}

/* Adds src, of the index's shape, to out, both dense and of f32, f64, i32, i64 or u8. False: the
 * tape has failed. */
static bool add_elements(ph__op *op, ph_tensor *out, size_t axis, const ph_tensor *index,
                         const ph_tensor *src)
{
    if (index->count == 0 || out->count == 0)
        return true;
    int64_t length = index->shape.dim[axis];
    if (length <= COLUMN_LENGTH || index->count / length >= COLUMN_COUNT ||
        out->count >= UINT32_MAX || index->count >= UINT32_MAX)
        return add_columns(op, out, axis, index, src);
    ph__places at = ph__places_of(out, axis, &index->shape);
    ph__sorted sorted;
    return ph__sort_index(op, &sorted, index, &at, out->count) &&
           ph__add_sorted(op, &sorted, src, out, 1, out->count, 1, true);
}

/* Half types are added in f32. Without history. */
static ph_tensor *cast(ph_tape *tape, ph_tensor *x, ph_dtype dtype)
{
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    ph_tensor *y = x && x->dtype != dtype ? ph_cast(tape, x, dtype) : x;
    ph_tape_set_grad_enabled(tape, enabled);
    return y;
}

/* Saved: the index, dense. */
static void gather_backward(ph__grad_call *call)
{
    const element_state *state = call->state;
    ph_tape *tape = call->tape;
    ph_tensor *in[] = {ph__dense(tape, call->out_grads[0]), call->saved[0]};
    ph__op op;
    if (!ph__op_begin(&op, tape, "gather backward", in, 2, 2))
        return;
    ph_dtype dtype = in[0]->dtype, real = ph__compute_dtype(dtype);
    ph_tensor *sums = ph_zeros(tape, real, state->shape), *src = cast(tape, in[0], real);
    if (!sums || !src || !add_elements(&op, sums, state->axis, in[1], src))
        return;
    ph_tensor *dx = cast(tape, sums, dtype);
    if (dx)
        call->in_grads[0] = ph__op_done(&op, dx);
}
static const ph__grad_def gather_grad = {"gather", sizeof(element_state), gather_backward, NULL};

ph_tensor *ph_gather(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index)
{
    ph_tensor *in[] = {x, index};
    ph__op op;
    element_state state;
    if (!ph__op_begin(&op, tape, "gather", in, 2, 2) || !check_index(&op, axis, &state.axis))
        return NULL;
    ph_tensor *dense = ph__dense(tape, index);
    ph_tensor *out = dense ? launch_gather(&op, x, state.axis, dense, bad_value(x->dtype)) : NULL;
    if (!out)
        return NULL;
    state.shape = state.src_shape = x->shape;
    if (op.tracked) {
        element_state *kept = ph__op_track(&op, &gather_grad, 1);
        if (kept)
            *kept = state;
        ph__op_save(&op, 0, dense);
    }
    return ph__op_done(&op, out);
}

/* ---- scatter ---- */
static bool launch_write(ph__op *op, ph_tensor *out, size_t axis, const ph_tensor *index,
                         const ph_tensor *src, const ph_tensor *winners)
{
    ph__write_args args = {.src = src ? src->data : NULL,
                           .index = index->data,
                           .winners = winners ? winners->data : NULL,
                           .out = out->data,
                           .at = ph__places_of(out, axis, &index->shape),
                           .total = index->count,
                           .wide = index->dtype == PH_DTYPE_I64};
    ph__kernel_def *def = &ph__write_kernels[ph__size_slot(ph_dtype_size(out->dtype))];
    return ph__op_launch(op, def, (uint64_t)ph__ceil_div(args.total, PH__INDEX_BLOCK),
                         PH__INDEX_BLOCK, 0, &args);
}

/* For each place of out, 1 + the number of the last element that points there. NULL: the tape
 * has failed. */
static ph_tensor *claim(ph__op *op, const ph_tensor *out, size_t axis, const ph_tensor *index)
{
    if (index->count >= UINT32_MAX)
        return ph__op_fail(op, PH_ERROR_SIZE, "scatter takes fewer than 2^32 - 1 elements");
    ph_tensor *winners = ph_zeros(op->tape, PH_DTYPE_I32, out->shape);
    if (!winners)
        return NULL;
    ph__claim_args args = {.index = index->data,
                           .winners = winners->data,
                           .at = ph__places_of(out, axis, &index->shape),
                           .total = index->count,
                           .wide = index->dtype == PH_DTYPE_I64};
    return ph__op_launch(op, &ph__claim_kernel, (uint64_t)ph__ceil_div(args.total, PH__INDEX_BLOCK),
                         PH__INDEX_BLOCK, 0, &args)
               ? winners
               : NULL;
}

static ph_tensor *copy_of(ph_tape *tape, ph_tensor *x)
{
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    ph_tensor *copy = ph_clone(tape, x);
    ph_tape_set_grad_enabled(tape, enabled);
    return copy;
}

static ph_tensor *grad_of_written(ph__op *op, const ph_tensor *g, const ph_tensor *index,
                                  const ph_tensor *winners, const element_state *state)
{
    ph_tensor *out = ph__op_output(op, g->dtype, &index->shape);
    if (!out)
        return NULL;
    ph__winners_grad_args args = {.g = g->data,
                                  .index = index->data,
                                  .winners = winners->data,
                                  .out = out->data,
                                  .at = ph__places_of(g, state->axis, &index->shape),
                                  .total = index->count,
                                  .wide = index->dtype == PH_DTYPE_I64};
    ph__kernel_def *def = &ph__winners_grad_kernels[ph__size_slot(ph_dtype_size(g->dtype))];
    if (!ph__op_launch(op, def, (uint64_t)ph__ceil_div(args.total, PH__INDEX_BLOCK),
                       PH__INDEX_BLOCK, 0, &args))
        return NULL;
    return widened(op->tape, out, &state->src_shape);
}

/* Saved: the index, dense; winners. x got nothing where something was written. */
static void scatter_backward(ph__grad_call *call)
{
    const element_state *state = call->state;
    ph_tensor *in[] = {ph__dense(call->tape, call->out_grads[0]), call->saved[0], call->saved[1]};
    ph_tensor *out[] = {NULL, NULL};
    ph__op op;
    if (!ph__op_begin(&op, call->tape, "scatter backward", in, 3, 3))
        return;
    if (call->needed[0]) {
        out[0] = copy_of(call->tape, in[0]);
        if (!out[0] || !launch_write(&op, out[0], state->axis, in[1], NULL, NULL))
            return;
    }
    if (call->needed[2] && !(out[1] = grad_of_written(&op, in[0], in[1], in[2], state)))
        return;
    if (!ph__op_done_n(&op, out, 2))
        return;
    call->in_grads[0] = out[0];
    call->in_grads[2] = out[1];
}
static const ph__grad_def scatter_grad = {"scatter", sizeof(element_state), scatter_backward, NULL};

ph_tensor *ph_scatter(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index, ph_tensor *src)
{
    ph_tensor *in[] = {x, index, src}, *values[] = {x, src};
    ph__autocast casts;
    ph__op op;
    element_state state;
    if (ph__autocast_begin(&casts, tape, PH__AUTOCAST_WIDEST, values, 2))
        return ph__autocast_end(&casts, ph_scatter(tape, values[0], axis, index, values[1]));
    if (!ph__op_begin(&op, tape, "scatter", in, 3, 3) || !check_index(&op, axis, &state.axis))
        return NULL;
    ph_tensor *dense = ph__dense(tape, index), *out = copy_of(tape, x);
    ph_tensor *written = dense ? narrowed(tape, src, &dense->shape) : NULL;
    ph_tensor *winners = written && out ? claim(&op, out, state.axis, dense) : NULL;
    if (!winners || !launch_write(&op, out, state.axis, dense, written, winners))
        return NULL;
    state.shape = x->shape;
    state.src_shape = src->shape;
    if (op.tracked) {
        element_state *kept = ph__op_track(&op, &scatter_grad, 2);
        if (kept)
            *kept = state;
        ph__op_save(&op, 0, dense);
        ph__op_save(&op, 1, winners);
    }
    return ph__op_done(&op, out);
}

/* ---- scatter_add ---- saved: the index, dense. */
static void scatter_add_backward(ph__grad_call *call)
{
    const element_state *state = call->state;
    ph_tensor *in[] = {call->out_grads[0], call->saved[0]};
    ph__op op;
    if (!ph__op_begin(&op, call->tape, "scatter_add backward", in, 2, 2))
        return;
    ph_tensor *written = NULL;
    if (call->needed[2]) {
        written = launch_gather(&op, in[0], state->axis, in[1], 0);
        written = widened(call->tape, written, &state->src_shape);
        if (!written)
            return;
    }
    if (!ph__op_done_n(&op, &written, 1))
        return;
    call->in_grads[0] = in[0];
    call->in_grads[2] = written;
}
static const ph__grad_def scatter_add_grad = {"scatter_add", sizeof(element_state),
                                              scatter_add_backward, NULL};

ph_tensor *ph_scatter_add(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index, ph_tensor *src)
{
    ph_tensor *in[] = {x, index, src}, *values[] = {x, src};
    ph__autocast casts;
    ph__op op;
    element_state state;
    if (ph__autocast_begin(&casts, tape, PH__AUTOCAST_WIDEST, values, 2))
        return ph__autocast_end(&casts, ph_scatter_add(tape, values[0], axis, index, values[1]));
    if (!ph__op_begin(&op, tape, "scatter_add", in, 3, 3) || !check_index(&op, axis, &state.axis))
        return NULL;
    if (x->dtype == PH_DTYPE_BOOL)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "there is no sum of bool");
    ph_dtype real = ph__compute_dtype(x->dtype);
    ph_tensor *dense = ph__dense(tape, index),
              *sums = real == x->dtype ? copy_of(tape, x) : ph__dense(tape, cast(tape, x, real));
    ph_tensor *written = dense ? cast(tape, narrowed(tape, src, &dense->shape), real) : NULL;
    if (!written || !sums || !add_elements(&op, sums, state.axis, dense, written))
        return NULL;
    ph_tensor *out = cast(tape, sums, x->dtype);
    state.shape = x->shape;
    state.src_shape = src->shape;
    if (out && op.tracked) {
        element_state *kept = ph__op_track(&op, &scatter_add_grad, 1);
        if (kept)
            *kept = state;
        ph__op_save(&op, 0, dense);
    }
    return out ? ph__op_done(&op, out) : NULL;
}
