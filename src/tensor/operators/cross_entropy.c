/* SPDX-License-Identifier: MIT */
/* tensor/operators/cross_entropy.c: the loss of logits against class numbers, in one pass over them
 * forward, and one backward. A row's maximum and one over its sum of exponentials are all that
 * is kept of the softmax. */
#include "base/status.h"
#include "tensor/backend/texts.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/rows.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/operators/copy.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

/* saved: of each row, in the dtype to compute in, its maximum and one over its sum; 0 and 0
 * where it is ignored, NaN where the target is no class. terms: a row's loss, in the dtype to
 * compute in; each: it goes to loss, in the logits' dtype. */
typedef struct rows_args {
    const void *logits, *targets;
    void *saved, *terms, *loss;
    int64_t rows, n, width, wide, ignores, ignored,
        each; /* width: of a row, of which n elements are classes */
} rows_args;
static const ph_param rows_params[] = {
    PH_PARAM(rows_args, logits, PH_PARAM_ADDRESS), PH_PARAM(rows_args, targets, PH_PARAM_ADDRESS),
    PH_PARAM(rows_args, saved, PH_PARAM_ADDRESS),  PH_PARAM(rows_args, terms, PH_PARAM_ADDRESS),
    PH_PARAM(rows_args, loss, PH_PARAM_ADDRESS),   PH_PARAM(rows_args, rows, PH_PARAM_VALUE),
    PH_PARAM(rows_args, n, PH_PARAM_VALUE),        PH_PARAM(rows_args, width, PH_PARAM_VALUE),
    PH_PARAM(rows_args, wide, PH_PARAM_VALUE),     PH_PARAM(rows_args, ignores, PH_PARAM_VALUE),
    PH_PARAM(rows_args, ignored, PH_PARAM_VALUE),  PH_PARAM(rows_args, each, PH_PARAM_VALUE)};

/* scale: what the gradient of the loss is multiplied by for each row. */
typedef struct total_args {
    const void *terms, *targets;
    void *loss, *scale;
    int64_t rows, wide, ignores, ignored, mean;
} total_args;
static const ph_param total_params[] = {
    PH_PARAM(total_args, terms, PH_PARAM_ADDRESS), PH_PARAM(total_args, targets, PH_PARAM_ADDRESS),
    PH_PARAM(total_args, loss, PH_PARAM_ADDRESS),  PH_PARAM(total_args, scale, PH_PARAM_ADDRESS),
    PH_PARAM(total_args, rows, PH_PARAM_VALUE),    PH_PARAM(total_args, wide, PH_PARAM_VALUE),
    PH_PARAM(total_args, ignores, PH_PARAM_VALUE), PH_PARAM(total_args, ignored, PH_PARAM_VALUE),
    PH_PARAM(total_args, mean, PH_PARAM_VALUE)};

/* scale NULL: 1. each: g has an element for each row. pieces: of a row, a block each; 0: the
 * rows are short. */
typedef struct grad_args {
    const void *logits, *targets, *saved, *g, *scale;
    void *out;
    int64_t rows, n, width, wide, ignores, ignored, each, pieces;
} grad_args;
static const ph_param grad_params[] = {
    PH_PARAM(grad_args, logits, PH_PARAM_ADDRESS), PH_PARAM(grad_args, targets, PH_PARAM_ADDRESS),
    PH_PARAM(grad_args, saved, PH_PARAM_ADDRESS),  PH_PARAM(grad_args, g, PH_PARAM_ADDRESS),
    PH_PARAM(grad_args, scale, PH_PARAM_ADDRESS),  PH_PARAM(grad_args, out, PH_PARAM_ADDRESS),
    PH_PARAM(grad_args, rows, PH_PARAM_VALUE),     PH_PARAM(grad_args, n, PH_PARAM_VALUE),
    PH_PARAM(grad_args, width, PH_PARAM_VALUE),    PH_PARAM(grad_args, wide, PH_PARAM_VALUE),
    PH_PARAM(grad_args, ignores, PH_PARAM_VALUE),  PH_PARAM(grad_args, ignored, PH_PARAM_VALUE),
    PH_PARAM(grad_args, each, PH_PARAM_VALUE),     PH_PARAM(grad_args, pieces, PH_PARAM_VALUE)};

enum {
    SHORT = 1024, /* longest row of a warp */
    SHORT_ROWS = 8,
    PIECE_BYTES = 256 * 2 * 16
};

#define REAL     float
#define OF(name) name##_float
#include "tensor/operators/cross_entropy_real.h"
#undef REAL
#undef OF
#define REAL     double
#define OF(name) name##_double
#include "tensor/operators/cross_entropy_real.h"
#undef REAL
#undef OF

/* ---- kernels ---- */
static int64_t piece_elements(ph_dtype dtype)
{
    return PIECE_BYTES / (int64_t)ph_dtype_size(dtype);
}

/* loss: the dtype of the loss, and so of its gradient. */
static void
grad_blocks(const ph_block_range *range, const grad_args *a, ph_dtype dtype, ph_dtype loss,
            void (*work)(const grad_args *, ph_dtype, ph_dtype, int64_t, int64_t, int64_t))
{
    int64_t piece = piece_elements(dtype);
    for (int64_t row = (int64_t)range->begin * SHORT_ROWS;
         a->pieces == 0 && row < (int64_t)range->end * SHORT_ROWS && row < a->rows; row++)
        work(a, dtype, loss, row, 0, a->width);
    for (int64_t block = (int64_t)range->begin; a->pieces > 0 && block < (int64_t)range->end;
         block++) {
        int64_t from = block % a->pieces * piece,
                to = from + piece < a->width ? from + piece : a->width;
        work(a, dtype, loss, block / a->pieces, from, to);
    }
}
static void grad_host_float(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    grad_blocks(range, args, dtype, dtype, grad_piece_float);
}
static void grad_host_double(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    grad_blocks(range, args, dtype, dtype, grad_piece_double);
}

PH__ROWS_KERNELS(cross_entropy, rows_host, ph__text_cross_entropy, "#define LOSS\n", rows_args,
                 rows_params)
PH__ROWS_KERNELS(cross_entropy_short, rows_host, ph__text_cross_entropy,
                 "#define LOSS\n#define WARPS\n", rows_args, rows_params)
PH__ROWS_KERNELS(cross_entropy_total, total_host, ph__text_cross_entropy, "#define TOTAL\n",
                 total_args, total_params)
PH__ROWS_KERNELS(cross_entropy_grad, grad_host, ph__text_cross_entropy, "#define LOSS_GRAD\n",
                 grad_args, grad_params)
PH__ROWS_KERNELS(cross_entropy_short_grad, grad_host, ph__text_cross_entropy,
                 "#define LOSS_GRAD\n#define WARPS\n", grad_args, grad_params)

/* ---- of half types, with a loss in f32 ---- as autocast wants it: what a cast of the logits
 * would give, without their copy in f32. */
static void wide_rows(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    rows_blocks_float(range, args, dtype, PH_DTYPE_F32);
}
static void wide_total(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    (void)dtype;
    total_host_float(range, args, PH_DTYPE_F32);
}
static void wide_grad(const ph_block_range *range, const void *args, ph_dtype dtype)
{
    grad_blocks(range, args, dtype, PH_DTYPE_F32, grad_piece_float);
}
PH__ROWS_HALF_KERNELS(cross_entropy_wide, wide_rows, ph__text_cross_entropy,
                      "#define LOSS\n#define WIDE\n#define EXACT_EXP\n", rows_args, rows_params)
PH__ROWS_HALF_KERNELS(cross_entropy_total_wide, wide_total, ph__text_cross_entropy,
                      "#define TOTAL\n#define WIDE\n", total_args, total_params)
PH__ROWS_HALF_KERNELS(cross_entropy_grad_wide, wide_grad, ph__text_cross_entropy,
                      "#define LOSS_GRAD\n#define WIDE\n", grad_args, grad_params)

PH__KERNEL_FAMILY(cross_entropy) = {PH__ROWS_LIST(cross_entropy),
                                    PH__ROWS_LIST(cross_entropy_short),
                                    PH__ROWS_LIST(cross_entropy_total),
                                    PH__ROWS_LIST(cross_entropy_grad),
                                    PH__ROWS_LIST(cross_entropy_short_grad),
                                    PH__ROWS_HALF_LIST(cross_entropy_wide),
                                    PH__ROWS_HALF_LIST(cross_entropy_total_wide),
                                    PH__ROWS_HALF_LIST(cross_entropy_grad_wide),
                                    NULL};

/* Of logits of that dtype; loss: in f32 where that is another. */
#define KERNEL_OF(kernel, dtype, loss)                                                             \
    ((loss) == (dtype) ? ph__rows_kernel(kernel, dtype)                                            \
                       : ph__rows_half_kernel(kernel##_wide, dtype))

static bool launch_rows(ph__op *op, const rows_args *args, ph_dtype dtype, ph_dtype loss)
{
    if (args->width <= SHORT)
        return ph__op_launch(op, ph__rows_kernel(cross_entropy_short, dtype),
                             (uint64_t)ph__ceil_div(args->rows, SHORT_ROWS), 32 * SHORT_ROWS, 0,
                             args);
    return ph__op_launch(op, KERNEL_OF(cross_entropy, dtype, loss), (uint64_t)args->rows,
                         args->width <= 4096    ? 128
                         : args->width <= 16384 ? 256
                                                : 512,
                         0, args);
}

static bool launch_grad(ph__op *op, grad_args *args, ph_dtype dtype, ph_dtype loss)
{
    /* pieces are aligned in memory, rows are not */
    int64_t padded = args->width + 16 / (int64_t)ph_dtype_size(dtype) - 1;
    if (args->width <= SHORT)
        return ph__op_launch(op, ph__rows_kernel(cross_entropy_short_grad, dtype),
                             (uint64_t)ph__ceil_div(args->rows, SHORT_ROWS), 32 * SHORT_ROWS, 0,
                             args);
    args->pieces = ph__ceil_div(padded, piece_elements(dtype));
    return ph__op_launch(op, KERNEL_OF(cross_entropy_grad, dtype, loss),
                         (uint64_t)args->rows * (uint64_t)args->pieces, 256, 0, args);
}

/* ---- gradient ---- saved: logits, targets (both dense), the rows' values, the scale (NULL: 1). */
typedef struct loss_state {
    int64_t rows, n, width, ignored;
    bool ignores, each;
} loss_state;

static void loss_backward(ph__grad_call *call)
{
    const loss_state *state = call->state;
    ph_tensor *in[] = {call->saved[0], call->saved[1], call->saved[2],
                       ph__dense(call->tape, call->out_grads[0]), call->saved[3]};
    ph__op op;
    if (!ph__op_begin(&op, call->tape, "cross_entropy backward", in, 5, 4))
        return;
    ph_tensor *out = ph__op_output(&op, in[0]->dtype, &in[0]->shape);
    if (!out)
        return;
    grad_args args = {.logits = in[0]->data,
                      .targets = in[1]->data,
                      .saved = in[2]->data,
                      .g = in[3]->data,
                      .scale = in[4] ? in[4]->data : NULL,
                      .out = out->data,
                      .rows = state->rows,
                      .n = state->n,
                      .width = state->width,
                      .wide = in[1]->dtype == PH_DTYPE_I64,
                      .ignores = state->ignores,
                      .ignored = state->ignored,
                      .each = state->each};
    if (out->count > 0 && !launch_grad(&op, &args, out->dtype, in[3]->dtype))
        return;
    call->in_grads[0] = ph__op_done(&op, out);
}
static const ph__grad_def loss_grad = {"cross_entropy", sizeof(loss_state), loss_backward, NULL};

/* ---- the operator ---- */
static bool check_loss_operands(ph__op *op, const ph_cross_entropy_options *options)
{
    const ph_tensor *logits = op->in[0], *targets = op->in[1];
    const char *wrong = NULL;
    ph_shape rows = logits->shape;
    if (!ph_dtype_is_floating(logits->dtype) || !ph__dtype_is_index(targets->dtype))
        wrong = "logits must be of a floating dtype, targets of i64 or i32";
    else if (rows.rank == 0)
        wrong = "logits must have an axis of classes";
    else if (options->reduction > PH_REDUCTION_NONE)
        wrong = "there is no such reduction";
    else if (options->classes == PH_ZERO)
        wrong = "classes is PH_ZERO, and can be no zero; 0 is all of them";
    else if (options->classes < 0 || options->classes > rows.dim[rows.rank - 1])
        wrong = "classes must be 0 (all) or as many as the last dimension of logits has, or fewer";
    if (rows.rank > 0)
        rows.rank--;
    if (!wrong && !ph_shape_equal(&rows, &targets->shape))
        wrong = "targets must have the shape of logits without its last dimension";
    if (wrong)
        ph__op_fail(op, PH_ERROR_ARGUMENT, "%s", wrong);
    return !wrong;
}

typedef struct loss_work {
    ph_tensor *logits, *targets, *saved, *terms, *loss, *scale;
} loss_work;

/* False: the tape has failed. */
static bool make_loss(ph__op *op, loss_work *work, const loss_state *state, ph_dtype loss)
{
    ph_dtype real = ph__compute_dtype(op->in[0]->dtype);
    work->logits = ph__dense(op->tape, op->in[0]);
    work->targets = ph__dense(op->tape, op->in[1]);
    work->saved = ph__op_output(op, real, &PH_SHAPE(state->rows, 2));
    work->terms = ph__op_output(op, real, &PH_SHAPE(state->each ? 0 : state->rows));
    work->loss = ph__op_output(op, loss, state->each ? &op->in[1]->shape : &PH_SCALAR);
    work->scale = ph__op_output(op, real, &PH_SCALAR);
    return work->logits && work->targets && work->saved && work->terms && work->loss && work->scale;
}

static bool launch_loss(ph__op *op, const loss_work *work, const loss_state *state, bool mean)
{
    bool wide = work->targets->dtype == PH_DTYPE_I64;
    rows_args rows = {.logits = work->logits->data,
                      .targets = work->targets->data,
                      .saved = work->saved->data,
                      .terms = work->terms->data,
                      .loss = work->loss->data,
                      .rows = state->rows,
                      .n = state->n,
                      .width = state->width,
                      .wide = wide,
                      .ignores = state->ignores,
                      .ignored = state->ignored,
                      .each = state->each};
    total_args total = {.terms = work->terms->data,
                        .targets = work->targets->data,
                        .loss = work->loss->data,
                        .scale = work->scale->data,
                        .rows = state->rows,
                        .wide = wide,
                        .ignores = state->ignores,
                        .ignored = state->ignored,
                        .mean = mean};
    ph_dtype dtype = work->logits->dtype, loss = work->loss->dtype;
    return launch_rows(op, &rows, dtype, loss) &&
           (state->each || ph__op_launch(op, KERNEL_OF(cross_entropy_total, dtype, loss), 1,
                                         state->rows <= 256 ? 256 : 1024, 0, &total));
}

/* wide: the loss of half types is f32. */
static ph_tensor *make_cross_entropy(ph_tape *tape, ph_tensor *logits, ph_tensor *targets,
                                     const ph_cross_entropy_options *options, bool wide)
{
    ph_tensor *in[] = {logits, targets};
    ph__op op;
    loss_work work;
    if (!ph__op_begin(&op, tape, "cross_entropy", in, 2, 2))
        return NULL;
    if (!ph__reserved_ok(options->reserved,
                         sizeof options->reserved / sizeof options->reserved[0])) {
        ph__op_check(&op, ph__fail_reserved("cross_entropy", "ph_cross_entropy_options"));
        return NULL;
    }
    if (!check_loss_operands(&op, options))
        return NULL;
    loss_state state = {.rows = targets->count,
                        .n = options->classes ? options->classes
                                              : logits->shape.dim[logits->shape.rank - 1],
                        .width = logits->shape.dim[logits->shape.rank - 1],
                        .ignored = options->ignore_index,
                        .ignores = options->has_ignore_index,
                        .each = options->reduction == PH_REDUCTION_NONE};
    if (!make_loss(&op, &work, &state, wide ? ph__compute_dtype(logits->dtype) : logits->dtype) ||
        !launch_loss(&op, &work, &state, options->reduction == PH_REDUCTION_MEAN))
        return NULL;
    if (op.tracked) {
        loss_state *kept = ph__op_track(&op, &loss_grad, 4);
        if (kept)
            *kept = state;
        ph__op_save(&op, 0, work.logits);
        ph__op_save(&op, 1, work.targets);
        ph__op_save(&op, 2, work.saved);
        ph__op_save(&op, 3, state.each ? NULL : work.scale);
    }
    return ph__op_done(&op, work.loss);
}

/* Long rows of half types are taken as they are: a cast to f32 would write and read them again. */
static bool is_long_half(const ph_tensor *logits)
{
    return logits && ph__is_half(logits->dtype) && logits->shape.rank > 0 &&
           logits->shape.dim[logits->shape.rank - 1] > SHORT;
}

ph_tensor *ph_cross_entropy_with(ph_tape *tape, ph_tensor *logits, ph_tensor *targets,
                                 const ph_cross_entropy_options *options)
{
    static const ph_cross_entropy_options usual = {.reduction = PH_REDUCTION_MEAN};
    ph_tensor *in[] = {logits};
    ph__autocast cast;
    options = options ? options : &usual;
    bool wide = ph__autocast_is_on(tape) && is_long_half(logits);
    if (!ph__autocast_begin(&cast, tape, PH__AUTOCAST_F32, in, wide ? 0 : 1))
        return make_cross_entropy(tape, logits, targets, options, false);
    return ph__autocast_end(&cast, make_cross_entropy(tape, in[0], targets, options, wide));
}

ph_tensor *ph_cross_entropy(ph_tape *tape, ph_tensor *logits, ph_tensor *targets)
{
    return ph_cross_entropy_with(tape, logits, targets, NULL);
}
