/* SPDX-License-Identifier: MIT */
/* tensor/operators/normalization.c: layer_norm and rms_norm over the last axis. What backward needs
 * beside the operand is each row's mean and scale (one over its deviation). Gradients of weight
 * and bias are added in two steps, by blocks of rows and then over those, so that their order is
 * fixed. */
#include "base/option.h"
#include "tensor/backend/texts.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/rows.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/operators/copy.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

/* y = (x - mean) * scale * w + b. In backward b is the gradient of y, and y that of x. w, b: may
 * be NULL. */
typedef struct norm_args {
    const void *x, *w, *b;
    void *y, *means, *scales;
    int64_t rows, n;
    double eps;
    int64_t centered; /* layer_norm; else the mean is taken as 0, and means is not looked at */
    int64_t rows_a_block;
} norm_args;
static const ph_param norm_params[] = {
    PH_PARAM(norm_args, x, PH_PARAM_ADDRESS),         PH_PARAM(norm_args, w, PH_PARAM_ADDRESS),
    PH_PARAM(norm_args, b, PH_PARAM_ADDRESS),         PH_PARAM(norm_args, y, PH_PARAM_ADDRESS),
    PH_PARAM(norm_args, means, PH_PARAM_ADDRESS),     PH_PARAM(norm_args, scales, PH_PARAM_ADDRESS),
    PH_PARAM(norm_args, rows, PH_PARAM_VALUE),        PH_PARAM(norm_args, n, PH_PARAM_VALUE),
    PH_PARAM(norm_args, eps, PH_PARAM_VALUE),         PH_PARAM(norm_args, centered, PH_PARAM_VALUE),
    PH_PARAM(norm_args, rows_a_block, PH_PARAM_VALUE)};

/* parts: [2][row_blocks][n] in the dtype to compute in: of weight, of bias. tiles: of columns.
 * means NULL:
 * 0. dx (and w, which may be NULL): for the kernel that makes the gradient of x too, in blocks
 *    behind the others. */
typedef struct parts_args {
    const void *x, *w, *g;
    void *dx;
    const void *means, *scales;
    void *parts;
    int64_t rows, n, rows_a_block, row_blocks, tiles;
} parts_args;
static const ph_param parts_params[] = {PH_PARAM(parts_args, x, PH_PARAM_ADDRESS),
                                        PH_PARAM(parts_args, w, PH_PARAM_ADDRESS),
                                        PH_PARAM(parts_args, g, PH_PARAM_ADDRESS),
                                        PH_PARAM(parts_args, dx, PH_PARAM_ADDRESS),
                                        PH_PARAM(parts_args, means, PH_PARAM_ADDRESS),
                                        PH_PARAM(parts_args, scales, PH_PARAM_ADDRESS),
                                        PH_PARAM(parts_args, parts, PH_PARAM_ADDRESS),
                                        PH_PARAM(parts_args, rows, PH_PARAM_VALUE),
                                        PH_PARAM(parts_args, n, PH_PARAM_VALUE),
                                        PH_PARAM(parts_args, rows_a_block, PH_PARAM_VALUE),
                                        PH_PARAM(parts_args, row_blocks, PH_PARAM_VALUE),
                                        PH_PARAM(parts_args, tiles, PH_PARAM_VALUE)};

/* weight, bias: NULL where no gradient is needed. */
typedef struct total_args {
    const void *parts;
    void *weight, *bias;
    int64_t n, row_blocks, tiles;
} total_args;
static const ph_param total_params[] = {PH_PARAM(total_args, parts, PH_PARAM_ADDRESS),
                                        PH_PARAM(total_args, weight, PH_PARAM_ADDRESS),
                                        PH_PARAM(total_args, bias, PH_PARAM_ADDRESS),
                                        PH_PARAM(total_args, n, PH_PARAM_VALUE),
                                        PH_PARAM(total_args, row_blocks, PH_PARAM_VALUE),
                                        PH_PARAM(total_args, tiles, PH_PARAM_VALUE)};

enum {
    SMALL_ROWS = 4,     /* of a block whose warps have one each */
    BOTH_ROWS = 8,      /* of one beside those that make the parts */
    BOTH_LIMIT = 4096,  /* rows: of more, two launches are no slower */
    TILE = 256,         /* columns of a block of parts, at most */
    PARTS_BLOCKS = 512, /* about so many, where there are rows enough; a multiple of 8 rows each */
    TOTAL_COLUMNS = 32
};
static int64_t tile_columns(ph_dtype dtype)
{
    return 32 * 16 / (int64_t)ph_dtype_size(dtype);
}

#define REAL     float
#define OF(name) name##_float
#include "tensor/operators/normalization_real.h"

#include "tensor/operators/normalization_parts_real.h"
#undef REAL
#undef OF
#define REAL     double
#define OF(name) name##_double
#include "tensor/operators/normalization_real.h"

#include "tensor/operators/normalization_parts_real.h"
#undef REAL
#undef OF

#define KERNELS(kernel, form, flags)                                                               \
    PH__ROWS_KERNELS(kernel, form, ph__text_norm, flags, norm_args, norm_params)
KERNELS(norm_small, norm_host, "#define SMALL\n")
KERNELS(norm_row, norm_host, "#define ROW\n")
KERNELS(norm_long, norm_host, "#define LONG\n")
KERNELS(norm_small_grad, norm_grad_host, "#define SMALL\n#define GRAD\n")
KERNELS(norm_row_grad, norm_grad_host, "#define ROW\n#define GRAD\n")
KERNELS(norm_long_grad, norm_grad_host, "#define LONG\n#define GRAD\n")
PH__ROWS_KERNELS(norm_parts, parts_host, ph__text_norm, "#define PARTS\n", parts_args, parts_params)
PH__ROWS_KERNELS(norm_both, parts_host, ph__text_norm,
                 "#define PARTS\n#define SMALL\n#define GRAD\n", parts_args, parts_params)
PH__ROWS_KERNELS(norm_parts_total, parts_total_host, ph__text_norm, "#define PARTS_TOTAL\n",
                 total_args, total_params)
PH__KERNEL_FAMILY(norm) = {PH__ROWS_LIST(norm_small),       PH__ROWS_LIST(norm_row),
                           PH__ROWS_LIST(norm_long),        PH__ROWS_LIST(norm_small_grad),
                           PH__ROWS_LIST(norm_row_grad),    PH__ROWS_LIST(norm_long_grad),
                           PH__ROWS_LIST(norm_parts),       PH__ROWS_LIST(norm_both),
                           PH__ROWS_LIST(norm_parts_total), NULL};

/* The longest rows that a warp, and a block, keep in registers: 8 (half types: 4), and 4, times
 * 16 bytes of each thread. */
enum {
    WARP_BYTES = 32 * 8 * 16,
    BLOCK_BYTES = 512 * 4 * 16,
    /* too few to fill a GPU with a warp each: a block, unless a row has as little as FEW_BYTES */
    FEW_ROWS = 1024,
    FEW_BYTES = 1024
};

/* Whether these may be read 16 bytes at a time, all along. */
static bool are_aligned(const void *a, const void *b, const void *c, const void *d, int64_t bytes)
{
    return ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d | (uintptr_t)bytes) % 16 == 0;
}

static bool fits_warp(int64_t bytes, ph_dtype dtype)
{
    return bytes <= (ph_dtype_size(dtype) == 2 ? WARP_BYTES / 2 : WARP_BYTES);
}

static bool launch_norm(ph__op *op, norm_args *args, ph_dtype dtype, bool grad)
{
    int64_t bytes = args->n * (int64_t)ph_dtype_size(dtype),
            threads = ph__ceil_div(bytes, 32 * 4 * 16) * 32;
    bool vectors = are_aligned(args->x, args->w, args->b, args->y, bytes);
    ph__kernel_def *def = grad ? norm_long_grad : norm_long;
    args->rows_a_block = 1;
    if (args->n == 0)
        return true;
    if (vectors && args->rows <= FEW_ROWS && bytes > FEW_BYTES && bytes <= BLOCK_BYTES) {
        threads = ph__ceil_div(bytes, 32 * 16) * 32;
        def = grad ? norm_row_grad : norm_row;
    } else if (vectors && fits_warp(bytes, dtype)) {
        args->rows_a_block = SMALL_ROWS;
        threads = 32 * SMALL_ROWS;
        def = grad ? norm_small_grad : norm_small;
    } else if (vectors && bytes <= BLOCK_BYTES) {
        def = grad ? norm_row_grad : norm_row;
    }
    return ph__op_launch(op, ph__rows_kernel(def, dtype),
                         (uint64_t)ph__ceil_div(args->rows, args->rows_a_block),
                         (uint32_t)(threads < 512 ? threads : 512), 0, args);
}

/* ---- gradients ---- saved: x, weight (both dense), means, scales. */
typedef struct norm_state {
    int64_t rows, n;
    bool centered;
} norm_state;

static bool launch_dx(ph__op *op, const norm_state *state, ph_tensor *dx)
{
    ph_tensor *const *in = op->in;
    norm_args args = {.x = in[0]->data,
                      .w = in[1] ? in[1]->data : NULL,
                      .b = in[4]->data,
                      .y = dx->data,
                      .means = in[2] ? in[2]->data : NULL,
                      .scales = in[3]->data,
                      .rows = state->rows,
                      .n = state->n,
                      .centered = state->centered};
    return launch_norm(op, &args, dx->dtype, true);
}

/* The sums over blocks of rows, and dx with them where its rows are short (*dx is NULL then). */
static bool launch_parts(ph__op *op, parts_args *args, ph_tensor **dx)
{
    ph_dtype dtype = op->in[0]->dtype;
    int64_t bytes = args->n * (int64_t)ph_dtype_size(dtype),
            blocks = args->row_blocks * args->tiles;
    if (!*dx || args->rows > BOTH_LIMIT || !fits_warp(bytes, dtype) ||
        !are_aligned(args->x, args->w, args->g, (*dx)->data, bytes))
        return ph__op_launch(op, ph__rows_kernel(norm_parts, dtype), (uint64_t)blocks, 256, 0,
                             args);
    args->dx = (*dx)->data;
    *dx = NULL;
    return ph__op_launch(op, ph__rows_kernel(norm_both, dtype),
                         (uint64_t)(blocks + ph__ceil_div(args->rows, BOTH_ROWS)), 256, 0, args);
}

/* dx, weight, bias: NULL where not needed. False: the tape has failed. */
static bool launch_all(ph__op *op, const norm_state *state, ph_tensor *dx, ph_tensor *weight,
                       ph_tensor *bias)
{
    ph_tensor *const *in = op->in;
    ph_dtype dtype = in[0]->dtype;
    int64_t tiles = ph__ceil_div(state->n, tile_columns(dtype)),
            most = PARTS_BLOCKS / (tiles > 0 && tiles < 64 ? tiles : 64);
    int64_t each = ph__ceil_div(ph__ceil_div(state->rows, most), 8) * 8;
    parts_args args = {.x = in[0]->data,
                       .w = in[1] ? in[1]->data : NULL,
                       .g = in[4]->data,
                       .means = in[2] ? in[2]->data : NULL,
                       .scales = in[3]->data,
                       .rows = state->rows,
                       .n = state->n,
                       .rows_a_block = each,
                       .row_blocks = each > 0 ? ph__ceil_div(state->rows, each) : 0,
                       .tiles = tiles};
    ph_tensor *parts =
        ph__op_output(op, ph__compute_dtype(dtype), &PH_SHAPE(2, args.row_blocks, state->n));
    if (!parts)
        return false;
    args.parts = parts->data;
    total_args total = {.parts = parts->data,
                        .weight = weight ? weight->data : NULL,
                        .bias = bias ? bias->data : NULL,
                        .n = state->n,
                        .row_blocks = args.row_blocks,
                        .tiles = ph__ceil_div(state->n, TOTAL_COLUMNS)};
    return launch_parts(op, &args, &dx) && (!dx || launch_dx(op, state, dx)) &&
           ph__op_launch(op, ph__rows_kernel(norm_parts_total, dtype), (uint64_t)(2 * total.tiles),
                         1024, 0, &total);
}

static void normalization_backward(ph__grad_call *call)
{
    const norm_state *state = call->state;
    ph_tensor *in[] = {call->saved[0], call->saved[1], call->saved[2], call->saved[3],
                       ph__dense(call->tape, call->out_grads[0])};
    ph__op op;
    if (!in[4] ||
        !ph__op_begin(&op, call->tape,
                      state->centered ? "layer_norm backward" : "rms_norm backward", in, 5, 1))
        return;
    ph_tensor *out[3] = {NULL, NULL, NULL};
    for (size_t i = 0; i < call->in_count; i++)
        if (call->needed[i] &&
            !(out[i] =
                  ph__op_output(&op, in[0]->dtype, i == 0 ? &in[0]->shape : &PH_SHAPE(state->n))))
            return;
    bool ok = out[1] || out[2] ? launch_all(&op, state, out[0], out[1], out[2])
                               : !out[0] || launch_dx(&op, state, out[0]);
    if (!ok || !ph__op_done_n(&op, out, 3))
        return;
    for (size_t i = 0; i < call->in_count; i++)
        call->in_grads[i] = out[i];
}
static const ph__grad_def norm_grad = {"norm", sizeof(norm_state), normalization_backward, NULL};

/* ---- the operators ---- */
static bool check_norm_operand(ph__op *op, double eps)
{
    const ph_tensor *x = op->in[0];
    if (!ph_dtype_is_floating(x->dtype) || x->shape.rank == 0) {
        ph__op_fail(op, PH_ERROR_ARGUMENT,
                    "the operand must be of a floating dtype, and have an axis");
        return false;
    }
    for (size_t i = 1; i < op->in_count; i++) {
        const ph_tensor *p = op->in[i];
        if (p && (p->dtype != x->dtype || p->shape.rank != 1 ||
                  p->shape.dim[0] != x->shape.dim[x->shape.rank - 1])) {
            ph__op_fail(op, PH_ERROR_ARGUMENT,
                        "weight and bias must have the operand's dtype (ph_cast them), and the "
                        "shape of its "
                        "last axis");
            return false;
        }
    }
    if (!(eps >= 0)) {
        ph__op_fail(op, PH_ERROR_ARGUMENT, "eps must not be negative");
        return false;
    }
    return true;
}

typedef struct norm_work {
    ph_tensor *x, *w, *b, *y, *means, *scales;
} norm_work;

static bool make_norm(ph__op *op, norm_work *work, const norm_state *state)
{
    ph_tensor *x = op->in[0], *w = op->in[1], *b = op->in_count > 2 ? op->in[2] : NULL;
    ph_dtype real = ph__compute_dtype(x->dtype);
    *work = (norm_work){.x = ph__dense(op->tape, x),
                        .w = ph__dense(op->tape, w),
                        .b = ph__dense(op->tape, b),
                        .y = ph__op_output(op, x->dtype, &x->shape),
                        .scales = ph__op_output(op, real, &PH_SHAPE(state->rows))};
    if (state->centered)
        work->means = ph__op_output(op, real, &PH_SHAPE(state->rows));
    return work->x && !work->w == !w && !work->b == !b && work->y && work->scales &&
           !work->means == !state->centered;
}

static ph_tensor *normalize_rows(ph__op *op, double eps, bool centered)
{
    norm_work work;
    if (!check_norm_operand(op, eps))
        return NULL;
    const ph_tensor *x = op->in[0];
    norm_state state = {.rows = ph__shape_product(&x->shape, 0, x->shape.rank - 1),
                        .n = x->shape.dim[x->shape.rank - 1],
                        .centered = centered};
    if (!make_norm(op, &work, &state))
        return NULL;
    norm_args args = {.x = work.x->data,
                      .w = work.w ? work.w->data : NULL,
                      .b = work.b ? work.b->data : NULL,
                      .y = work.y->data,
                      .means = work.means ? work.means->data : NULL,
                      .scales = work.scales->data,
                      .rows = state.rows,
                      .n = state.n,
                      .eps = ph__option_real(eps, 1e-5),
                      .centered = centered};
    if (!launch_norm(op, &args, x->dtype, false))
        return NULL;
    if (op->tracked) {
        norm_state *kept = ph__op_track(op, &norm_grad, 4);
        if (kept)
            *kept = state;
        ph__op_save(op, 0, work.x);
        ph__op_save(op, 1, work.w);
        ph__op_save(op, 2, work.means);
        ph__op_save(op, 3, work.scales);
    }
    return ph__op_done(op, work.y);
}

ph_tensor *ph_layer_norm(ph_tape *tape, ph_tensor *x, ph_tensor *weight, ph_tensor *bias,
                         double eps)
{
    ph_tensor *in[] = {x, weight, bias};
    ph__autocast cast;
    ph__op op;
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_F32, in, 3))
        return ph__autocast_end(&cast, ph_layer_norm(tape, in[0], in[1], in[2], eps));
    return ph__op_begin(&op, tape, "layer_norm", in, 3, 1) ? normalize_rows(&op, eps, true) : NULL;
}

ph_tensor *ph_rms_norm(ph_tape *tape, ph_tensor *x, ph_tensor *weight, double eps)
{
    ph_tensor *in[] = {x, weight};
    ph__autocast cast;
    ph__op op;
    if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_F32, in, 2))
        return ph__autocast_end(&cast, ph_rms_norm(tape, in[0], in[1], eps));
    return ph__op_begin(&op, tape, "rms_norm", in, 2, 1) ? normalize_rows(&op, eps, false) : NULL;
}
