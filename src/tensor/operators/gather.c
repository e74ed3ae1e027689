/* SPDX-License-Identifier: MIT */
/* tensor/operators/gather.c: gather, and its gradient: sums at the elements that an index names. */
#include "tensor/operators/gather.h"
#include "tensor/core/shape.h"
#include "tensor/kernels/add_sorted.h"
#include "tensor/kernels/indexing_kernels.h"
#include "tensor/kernels/indexing_sort.h"
#include "tensor/operators/copy.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"

/* Columns that are no longer than this, or that are so many, are added by a thread each; others are
 * sorted. */
enum {
    COLUMN_LENGTH = 32,
    COLUMN_COUNT = 16384
};

static bool fail_argument(ph__op *op, const char *why)
{
    ph__op_fail(op, PH_ERROR_ARGUMENT, "%s", why);
    return false;
}

bool ph__gather_check(ph__op *op, int wanted, size_t *axis)
{
    const ph_tensor *x = op->in[0], *index = op->in[1], *src = op->in_count > 2 ? op->in[2] : NULL;
    int at = ph__axis(wanted, x->shape.rank);
    if (at < 0) {
        ph__op_fail(op, PH_ERROR_ARGUMENT, "there is no axis %d", wanted);
        return false;
    }
    *axis = (size_t)at;
    if (!ph__dtype_is_index(index->dtype))
        return fail_argument(op, "the index must be of i64 or i32");
    if (index->shape.rank != x->shape.rank || (src && src->shape.rank != x->shape.rank))
        return fail_argument(op, "all must have as many axes");
    if (src && src->dtype != x->dtype)
        return fail_argument(
            op, "the operand and what is written must be of one dtype; ph_cast one of them");
    for (size_t i = 0; i < x->shape.rank; i++)
        if ((i != *axis && index->shape.dim[i] > x->shape.dim[i]) ||
            (src && index->shape.dim[i] > src->shape.dim[i]))
            return fail_argument(
                op, "the index must not be longer than the operand along other axes, nor than what "
                    "is written along any");
    return true;
}

ph_tensor *ph__gather_launch(ph__op *op, const ph_tensor *x, size_t axis, const ph_tensor *index,
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
static bool add_index_columns(ph__op *op, ph_tensor *out, size_t axis, const ph_tensor *index,
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

bool ph__gather_add(ph__op *op, ph_tensor *out, size_t axis, const ph_tensor *index,
                    const ph_tensor *src)
{
    if (index->count == 0 || out->count == 0)
        return true;
    int64_t length = index->shape.dim[axis];
    if (length <= COLUMN_LENGTH || index->count / length >= COLUMN_COUNT ||
        out->count >= UINT32_MAX || index->count >= UINT32_MAX)
        return add_index_columns(op, out, axis, index, src);
    ph__places at = ph__places_of(out, axis, &index->shape);
    ph__sorted sorted;
    return ph__sort_index(op, &sorted, index, &at, out->count) &&
           ph__add_sorted(op, &sorted, src, out, 1, out->count, 1, true);
}

ph_tensor *ph__gather_cast(ph_tape *tape, ph_tensor *x, ph_dtype dtype)
{
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    ph_tensor *y = x && x->dtype != dtype ? ph_cast(tape, x, dtype) : x;
    ph_tape_set_grad_enabled(tape, enabled);
    return y;
}

/* Saved: the index, dense. */
static void gather_backward(ph__grad_call *call)
{
    const ph__gather_state *state = call->state;
    ph_tape *tape = call->tape;
    ph_tensor *in[] = {ph__dense(tape, call->out_grads[0]), call->saved[0]};
    ph__op op;
    if (!ph__op_begin(&op, tape, "gather backward", in, 2, 2))
        return;
    ph_dtype dtype = in[0]->dtype, real = ph__compute_dtype(dtype);
    ph_tensor *sums = ph_zeros(tape, real, state->shape), *src = ph__gather_cast(tape, in[0], real);
    if (!sums || !src || !ph__gather_add(&op, sums, state->axis, in[1], src))
        return;
    ph_tensor *dx = ph__gather_cast(tape, sums, dtype);
    if (dx)
        call->in_grads[0] = ph__op_done(&op, dx);
}
static const ph__grad_def gather_grad = {"gather", sizeof(ph__gather_state), gather_backward, NULL};

ph_tensor *ph_gather(ph_tape *tape, ph_tensor *x, int axis, ph_tensor *index)
{
    ph_tensor *in[] = {x, index};
    ph__op op;
    ph__gather_state state;
    if (!ph__op_begin(&op, tape, "gather", in, 2, 2) || !ph__gather_check(&op, axis, &state.axis))
        return NULL;
    ph_tensor *dense = ph__dense(tape, index);
    ph_tensor *out =
        dense ? ph__gather_launch(&op, x, state.axis, dense, ph__bad_value(x->dtype)) : NULL;
    if (!out)
        return NULL;
    state.shape = state.src_shape = x->shape;
    if (op.tracked) {
        ph__gather_state *kept = ph__op_track(&op, &gather_grad, 1);
        if (kept)
            *kept = state;
        ph__op_save(&op, 0, dense);
    }
    return ph__op_done(&op, out);
}
