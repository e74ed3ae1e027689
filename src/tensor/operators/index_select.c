/* SPDX-License-Identifier: MIT */
/* tensor/operators/index_select.c: embedding and index_select: whole slices, x as
 * [outer][n][inner]. */
#include "tensor/core/shape.h"
#include "tensor/kernels/add_sorted.h"
#include "tensor/kernels/indexing_kernels.h"
#include "tensor/kernels/indexing_sort.h"
#include "tensor/operators/copy.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"

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
                          .bad = ph__bad_value(x->dtype)};
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
    /* Into the sum of other gradients, as that of a head which shares the weight: most rows then
     * are neither cleared nor added. Half types would be rounded otherwise there. */
    ph_tensor *sum = call->sums[0];
    bool onto = sum && (sum->dtype == PH_DTYPE_F32 || sum->dtype == PH_DTYPE_F64);
    ph_tensor *dx = onto ? sum : ph_zeros(call->tape, in[0]->dtype, state->shape);
    ph__places at = {.n = state->n, .step = 1};
    ph__sorted sorted;
    if (!dx || !ph__sort_index(&op, &sorted, in[1], &at, state->n) ||
        !ph__add_sorted(&op, &sorted, in[0], dx, state->outer, state->n, state->inner, onto))
        return;
    call->in_grads[0] = ph__op_done(&op, dx);
    call->summed[0] = onto;
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
        return ph__op_fail(
            &op, PH_ERROR_ARGUMENT,
            "weight must have two axes, index at most %d, and index be of i64 or i32",
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
