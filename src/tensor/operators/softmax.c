/* SPDX-License-Identifier: MIT */
/* tensor/operators/softmax.c: softmax and log_softmax along any axis. What backward needs is the
 * result. */
#include "tensor/backend/texts.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/rows.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/operators/copy.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

/* x gives y; in backward x is the result and g its gradient. rows: of n elements each, inner
 * apart (inner > 1: they are columns). */
typedef struct softmax_args {
    const void *x, *g;
    void *y;
    int64_t rows, n, inner, log;
    int64_t cached; /* of a long row, what is read stays in shared memory */
} softmax_args;
static const ph_param params[] = {
    PH_PARAM(softmax_args, x, PH_PARAM_ADDRESS), PH_PARAM(softmax_args, g, PH_PARAM_ADDRESS),
    PH_PARAM(softmax_args, y, PH_PARAM_ADDRESS), PH_PARAM(softmax_args, rows, PH_PARAM_VALUE),
    PH_PARAM(softmax_args, n, PH_PARAM_VALUE),   PH_PARAM(softmax_args, inner, PH_PARAM_VALUE),
    PH_PARAM(softmax_args, log, PH_PARAM_VALUE), PH_PARAM(softmax_args, cached, PH_PARAM_VALUE)};

enum {
    SMALL = 1024,   /* longest row of a warp */
    SMALL_ROWS = 4, /* of a block */
    COLUMNS = 32,   /* of a block */
    /* bytes of shared memory, two blocks of a multiprocessor: longer rows are better read again */
    CACHE_LIMIT = 112 << 10
};

#define REAL     float
#define OF(name) name##_float
#define LOWEST   (-FLT_MAX)
#include "tensor/operators/softmax_columns_real.h"

#include "tensor/operators/softmax_real.h"
#undef REAL
#undef OF
#undef LOWEST
#define REAL     double
#define OF(name) name##_double
#define LOWEST   (-DBL_MAX)
#include "tensor/operators/softmax_columns_real.h"

#include "tensor/operators/softmax_real.h"
#undef REAL
#undef OF
#undef LOWEST

#define KERNELS(kernel, flags)                                                                     \
    PH__ROWS_KERNELS(kernel, softmax_host, ph__text_softmax, flags, softmax_args, params)
KERNELS(softmax_small, "#define SMALL\n")
KERNELS(softmax_row, "#define ROW\n")
KERNELS(softmax_columns, "#define COLUMNS\n")
KERNELS(softmax_small_grad, "#define SMALL\n#define GRAD\n")
KERNELS(softmax_row_grad, "#define ROW\n#define GRAD\n")
KERNELS(softmax_columns_grad, "#define COLUMNS\n#define GRAD\n")
PH__KERNEL_FAMILY(softmax) = {PH__ROWS_LIST(softmax_small),
                              PH__ROWS_LIST(softmax_row),
                              PH__ROWS_LIST(softmax_columns),
                              PH__ROWS_LIST(softmax_small_grad),
                              PH__ROWS_LIST(softmax_row_grad),
                              PH__ROWS_LIST(softmax_columns_grad),
                              NULL};

static bool launch_softmax(ph__op *op, softmax_args *args, ph_dtype dtype)
{
    bool grad = args->g != NULL;
    if (args->n == 0)
        return true;
    if (args->inner > 1)
        return ph__op_launch(op,
                             ph__rows_kernel(grad ? softmax_columns_grad : softmax_columns, dtype),
                             (uint64_t)ph__ceil_div(args->rows, COLUMNS), 256, 0, args);
    if (args->n <= SMALL)
        return ph__op_launch(op, ph__rows_kernel(grad ? softmax_small_grad : softmax_small, dtype),
                             (uint64_t)ph__ceil_div(args->rows, SMALL_ROWS), 32 * SMALL_ROWS, 0,
                             args);
    int64_t bytes = args->n * (int64_t)ph_dtype_size(dtype), kept = bytes * (grad ? 2 : 1);
    int64_t limit =
        (int64_t)ph__tensor_backend(op->in[0])->info.shared_bytes_per_block_max - (4 << 10);
    int64_t threads = ph__ceil_div(bytes, 16 * 128) * 32, most;
    args->cached = kept <= (limit < CACHE_LIMIT ? limit : CACHE_LIMIT);
    most = args->cached ? 512 : 1024;
    return ph__op_launch(op, ph__rows_kernel(grad ? softmax_row_grad : softmax_row, dtype),
                         (uint64_t)args->rows,
                         (uint32_t)(threads < 64     ? 64
                                    : threads < most ? threads
                                                     : most),
                         args->cached ? (size_t)kept : 0, args);
}

/* ---- gradient ---- saved: the result. */
typedef struct softmax_state {
    int64_t rows, n, inner, log;
} softmax_state;

static void softmax_backward(ph__grad_call *call)
{
    const softmax_state *state = call->state;
    ph_tensor *in[] = {call->saved[0], ph__dense(call->tape, call->out_grads[0])};
    ph__op op;
    if (!ph__op_begin(&op, call->tape, state->log ? "log_softmax backward" : "softmax backward", in,
                      2, 2))
        return;
    ph_tensor *dx = ph__op_output(&op, in[0]->dtype, &in[0]->shape);
    if (!dx)
        return;
    softmax_args args = {.x = in[0]->data,
                         .g = in[1]->data,
                         .y = dx->data,
                         .rows = state->rows,
                         .n = state->n,
                         .inner = state->inner,
                         .log = state->log};
    if (dx->count > 0 && !launch_softmax(&op, &args, dx->dtype))
        return;
    call->in_grads[0] = ph__op_done(&op, dx);
}
static const ph__grad_def softmax_grad = {"softmax", sizeof(softmax_state), softmax_backward, NULL};

static ph_tensor *apply_softmax(ph_tape *tape, const char *name, ph_tensor *x, int wanted_axis,
                                bool log)
{
    ph_tensor *in[] = {x};
    ph__autocast cast;
    ph__op op;
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_F32, in, 1))
        return ph__autocast_end(&cast, apply_softmax(tape, name, in[0], wanted_axis, log));
    if (!ph__op_begin(&op, tape, name, in, 1, 1))
        return NULL;
    if (!ph_dtype_is_floating(x->dtype))
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "the operand must be of a floating dtype");
    int axis = ph__axis(wanted_axis, x->shape.rank);
    if (axis < 0 && (x->shape.rank > 0 || wanted_axis < -1 || wanted_axis > 0))
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "there is no axis %d", wanted_axis);
    size_t at = axis < 0 ? 0 : (size_t)axis, rank = x->shape.rank;
    softmax_state state = {.n = rank ? x->shape.dim[at] : 1,
                           .inner = rank ? ph__shape_product(&x->shape, at + 1, rank) : 1,
                           .log = log};
    state.rows = ph__shape_product(&x->shape, 0, at) * state.inner;
    ph_tensor *dense = ph__dense(tape, x), *y = ph__op_output(&op, x->dtype, &x->shape);
    if (!dense || !y)
        return NULL;
    softmax_args args = {.x = dense->data,
                         .y = y->data,
                         .rows = state.rows,
                         .n = state.n,
                         .inner = state.inner,
                         .log = log};
    if (y->count > 0 && !launch_softmax(&op, &args, x->dtype))
        return NULL;
    if (op.tracked) {
        softmax_state *kept = ph__op_track(&op, &softmax_grad, 1);
        if (kept)
            *kept = state;
        ph__op_save(&op, 0, y);
    }
    return ph__op_done(&op, y);
}

ph_tensor *ph_softmax(ph_tape *tape, ph_tensor *x, int axis)
{
    return apply_softmax(tape, "softmax", x, axis, false);
}

ph_tensor *ph_log_softmax(ph_tape *tape, ph_tensor *x, int axis)
{
    return apply_softmax(tape, "log_softmax", x, axis, true);
}
