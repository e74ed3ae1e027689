/* SPDX-License-Identifier: MIT */
/* tensor/operators/scatter.c: scatter and scatter_add. */
#include "tensor/kernels/indexing_kernels.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/operators/copy.h"
#include "tensor/operators/gather.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"

/* The first elements along each axis, as many as the index has; dense, without history. */
static ph_tensor *narrow_source(ph_tape *tape, ph_tensor *src, const ph_shape *shape)
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
static ph_tensor *widen_gradient(ph_tape *tape, ph_tensor *grad, const ph_shape *shape)
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
static ph_tensor *claim_places(ph__op *op, const ph_tensor *out, size_t axis,
                               const ph_tensor *index)
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

static ph_tensor *clone_without_history(ph_tape *tape, ph_tensor *x)
{
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    ph_tensor *copy = ph_clone(tape, x);
    ph_tape_set_grad_enabled(tape, enabled);
    return copy;
}

static ph_tensor *gradient_of_written(ph__op *op, const ph_tensor *g, const ph_tensor *index,
                                      const ph_tensor *winners, const ph__gather_state *state)
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
    return widen_gradient(op->tape, out, &state->src_shape);
}

/* Saved: the index, dense; winners. x got nothing where something was written. */
static void scatter_backward(ph__grad_call *call)
{
    const ph__gather_state *state = call->state;
    ph_tensor *in[] = {ph__dense(call->tape, call->out_grads[0]), call->saved[0], call->saved[1]};
    ph_tensor *out[] = {NULL, NULL};
    ph__op op;
    if (!ph__op_begin(&op, call->tape, "scatter backward", in, 3, 3))
        return;
    if (call->needed[0]) {
        out[0] = clone_without_history(call->tape, in[0]);
        if (!out[0] || !launch_write(&op, out[0], state->axis, in[1], NULL, NULL))
            return;
    }
    if (call->needed[2] && !(out[1] = gradient_of_written(&op, in[0], in[1], in[2], state)))
        return;
    if (!ph__op_done_n(&op, out, 2))
        return;
    call->in_grads[0] = out[0];
    call->in_grads[2] = out[1];
}
static const ph__grad_def scatter_grad = {"scatter", sizeof(ph__gather_state), scatter_backward,
                                          NULL};

ph_tensor *ph_scatter(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index, ph_tensor *src)
{
    ph_tensor *in[] = {x, index, src}, *values[] = {x, src};
    ph__autocast casts;
    ph__op op;
    ph__gather_state state;
    if (ph__autocast_begin(&casts, tape, PH__AUTOCAST_WIDEST, values, 2))
        return ph__autocast_end(&casts, ph_scatter(tape, values[0], axis, index, values[1]));
    if (!ph__op_begin(&op, tape, "scatter", in, 3, 3) || !ph__gather_check(&op, axis, &state.axis))
        return NULL;
    ph_tensor *dense = ph__dense(tape, index), *out = clone_without_history(tape, x);
    ph_tensor *written = dense ? narrow_source(tape, src, &dense->shape) : NULL;
    ph_tensor *winners = written && out ? claim_places(&op, out, state.axis, dense) : NULL;
    if (!winners || !launch_write(&op, out, state.axis, dense, written, winners))
        return NULL;
    state.shape = x->shape;
    state.src_shape = src->shape;
    if (op.tracked) {
        ph__gather_state *kept = ph__op_track(&op, &scatter_grad, 2);
        if (kept)
            *kept = state;
        ph__op_save(&op, 0, dense);
        ph__op_save(&op, 1, winners);
    }
    return ph__op_done(&op, out);
}

/* Saved: the index, dense. */
static void scatter_add_backward(ph__grad_call *call)
{
    const ph__gather_state *state = call->state;
    ph_tensor *in[] = {call->out_grads[0], call->saved[0]};
    ph__op op;
    if (!ph__op_begin(&op, call->tape, "scatter_add backward", in, 2, 2))
        return;
    ph_tensor *written = NULL;
    if (call->needed[2]) {
        written = ph__gather_launch(&op, in[0], state->axis, in[1], 0);
        written = widen_gradient(call->tape, written, &state->src_shape);
        if (!written)
            return;
    }
    if (!ph__op_done_n(&op, &written, 1))
        return;
    call->in_grads[0] = in[0];
    call->in_grads[2] = written;
}
static const ph__grad_def scatter_add_grad = {"scatter_add", sizeof(ph__gather_state),
                                              scatter_add_backward, NULL};

ph_tensor *ph_scatter_add(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index, ph_tensor *src)
{
    ph_tensor *in[] = {x, index, src}, *values[] = {x, src};
    ph__autocast casts;
    ph__op op;
    ph__gather_state state;
    if (ph__autocast_begin(&casts, tape, PH__AUTOCAST_WIDEST, values, 2))
        return ph__autocast_end(&casts, ph_scatter_add(tape, values[0], axis, index, values[1]));
    if (!ph__op_begin(&op, tape, "scatter_add", in, 3, 3) ||
        !ph__gather_check(&op, axis, &state.axis))
        return NULL;
    if (x->dtype == PH_DTYPE_BOOL)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "there is no sum of bool");
    ph_dtype real = ph__compute_dtype(x->dtype);
    ph_tensor *dense = ph__dense(tape, index),
              *sums = real == x->dtype ? clone_without_history(tape, x)
                                       : ph__dense(tape, ph__gather_cast(tape, x, real));
    ph_tensor *written =
        dense ? ph__gather_cast(tape, narrow_source(tape, src, &dense->shape), real) : NULL;
    if (!written || !sums || !ph__gather_add(&op, sums, state.axis, dense, written))
        return NULL;
    ph_tensor *out = ph__gather_cast(tape, sums, x->dtype);
    state.shape = x->shape;
    state.src_shape = src->shape;
    if (out && op.tracked) {
        ph__gather_state *kept = ph__op_track(&op, &scatter_add_grad, 1);
        if (kept)
            *kept = state;
        ph__op_save(&op, 0, dense);
    }
    return out ? ph__op_done(&op, out) : NULL;
}
