/* SPDX-License-Identifier: MIT */
/* tensor/operators/mse.c: the mean squared error, in one pass over its operands forward and one
 * backward. */
#include "tensor/backend/texts.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/rows.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/operators/copy.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

/* parts: a sum for each piece of so many elements, in the dtype to compute in. */
typedef struct squares_args {
    const void *a, *b;
    void *parts;
    int64_t n, piece;
} squares_args;
static const ph_param squares_params[] = {
    PH_PARAM(squares_args, a, PH_PARAM_ADDRESS), PH_PARAM(squares_args, b, PH_PARAM_ADDRESS),
    PH_PARAM(squares_args, parts, PH_PARAM_ADDRESS), PH_PARAM(squares_args, n, PH_PARAM_VALUE),
    PH_PARAM(squares_args, piece, PH_PARAM_VALUE)};

typedef struct total_args {
    const void *parts;
    void *loss;
    int64_t count, n;
} total_args;
static const ph_param total_params[] = {
    PH_PARAM(total_args, parts, PH_PARAM_ADDRESS), PH_PARAM(total_args, loss, PH_PARAM_ADDRESS),
    PH_PARAM(total_args, count, PH_PARAM_VALUE), PH_PARAM(total_args, n, PH_PARAM_VALUE)};

/* da, db: NULL where no gradient is needed. */
typedef struct grad_args {
    const void *a, *b, *g;
    void *da, *db;
    int64_t n, piece;
} grad_args;
static const ph_param grad_params[] = {
    PH_PARAM(grad_args, a, PH_PARAM_ADDRESS),  PH_PARAM(grad_args, b, PH_PARAM_ADDRESS),
    PH_PARAM(grad_args, g, PH_PARAM_ADDRESS),  PH_PARAM(grad_args, da, PH_PARAM_ADDRESS),
    PH_PARAM(grad_args, db, PH_PARAM_ADDRESS), PH_PARAM(grad_args, n, PH_PARAM_VALUE),
    PH_PARAM(grad_args, piece, PH_PARAM_VALUE)};

#define REAL     float
#define OF(name) name##_float
#include "tensor/operators/mse_real.h"
#undef REAL
#undef OF
#define REAL     double
#define OF(name) name##_double
#include "tensor/operators/mse_real.h"
#undef REAL
#undef OF

PH__ROWS_KERNELS(mse, squares_host, ph__text_cross_entropy, "#define SQUARES\n", squares_args,
                 squares_params)
PH__ROWS_KERNELS(mse_total, squares_total_host, ph__text_cross_entropy, "#define SQUARES_TOTAL\n",
                 total_args, total_params)
PH__ROWS_KERNELS(mse_grad, squares_grad_host, ph__text_cross_entropy, "#define SQUARES_GRAD\n",
                 grad_args, grad_params)
PH__KERNEL_FAMILY(mse) = {PH__ROWS_LIST(mse), PH__ROWS_LIST(mse_total), PH__ROWS_LIST(mse_grad),
                          NULL};

/* Elements of a block: a multiple of 16 bytes, and at most 1024 blocks forward, whose sums one
 * block adds. */
static int64_t elements_of_block(int64_t n)
{
    int64_t piece = ph__ceil_div(n, 1024);
    return piece <= 4096 ? 4096 : ph__ceil_div(piece, 16) * 16;
}
enum {
    GRAD_PIECE = 4096
};

/* Saved: both operands, broadcast and dense. */
static void mse_backward(ph__grad_call *call)
{
    ph_tensor *in[] = {call->saved[0], call->saved[1], call->out_grads[0]};
    ph_tensor *out[2] = {NULL, NULL};
    ph__op op;
    if (!ph__op_begin(&op, call->tape, "mse backward", in, 3, 3))
        return;
    for (size_t i = 0; i < 2; i++)
        if (call->needed[i] && !(out[i] = ph__op_output(&op, in[0]->dtype, &in[0]->shape)))
            return;
    int64_t n = in[0]->count;
    grad_args args = {.a = in[0]->data,
                      .b = in[1]->data,
                      .g = in[2]->data,
                      .da = out[0] ? out[0]->data : NULL,
                      .db = out[1] ? out[1]->data : NULL,
                      .n = n,
                      .piece = GRAD_PIECE};
    if (!ph__op_launch(&op, ph__rows_kernel(mse_grad, in[0]->dtype),
                       (uint64_t)ph__ceil_div(n, GRAD_PIECE), 256, 0, &args) ||
        !ph__op_done_n(&op, out, 2))
        return;
    call->in_grads[0] = out[0];
    call->in_grads[1] = out[1];
}
static const ph__grad_def mse_grad_def = {"mse", 0, mse_backward, NULL};

/* In the common shape, dense, without history. */
static ph_tensor *broadcast_dense(ph_tape *tape, ph_tensor *x, const ph_shape *shape)
{
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    ph_tensor *y = ph_shape_equal(&x->shape, shape) ? x : ph_expand(tape, x, *shape);
    y = ph__dense(tape, y);
    ph_tape_set_grad_enabled(tape, enabled);
    return y;
}

ph_tensor *ph_mse(ph_tape *tape, ph_tensor *a, ph_tensor *b)
{
    ph_tensor *in[] = {a, b};
    ph_shape shape;
    ph__autocast cast;
    ph__op op;
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_F32, in, 2))
        return ph__autocast_end(&cast, ph_mse(tape, in[0], in[1]));
    if (!ph__op_begin(&op, tape, "mse", in, 2, 2))
        return NULL;
    if (!ph_dtype_is_floating(a->dtype) || a->dtype != b->dtype)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT,
                           "the operands must be of one floating dtype; ph_cast one of them");
    if (!ph__shape_broadcast(&shape, &a->shape, &b->shape))
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "the shapes do not broadcast");
    int64_t n = ph_shape_count(&shape), piece = elements_of_block(n),
            count = ph__ceil_div(n, piece);
    ph_tensor *x = broadcast_dense(tape, a, &shape), *y = broadcast_dense(tape, b, &shape);
    ph_tensor *parts = ph__op_output(&op, ph__compute_dtype(a->dtype), &PH_SHAPE(count));
    ph_tensor *loss = ph__op_output(&op, a->dtype, &PH_SCALAR);
    if (!x || !y || !parts || !loss)
        return NULL;
    squares_args args = {.a = x->data, .b = y->data, .parts = parts->data, .n = n, .piece = piece};
    total_args total = {.parts = parts->data, .loss = loss->data, .count = count, .n = n};
    if (!ph__op_launch(&op, ph__rows_kernel(mse, a->dtype), (uint64_t)count, 256, 0, &args) ||
        !ph__op_launch(&op, ph__rows_kernel(mse_total, a->dtype), 1, 1024, 0, &total))
        return NULL;
    if (op.tracked && ph__op_track(&op, &mse_grad_def, 2)) {
        ph__op_save(&op, 0, x);
        ph__op_save(&op, 1, y);
    }
    return ph__op_done(&op, loss);
}
