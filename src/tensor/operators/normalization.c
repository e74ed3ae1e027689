/* SPDX-License-Identifier: MIT */
/* tensor/operators/normalization.c: layer_norm and rms_norm over the last axis. What backward needs
 * beside the operand is each row's mean and scale (one over its deviation). Gradients of weight
 * and bias are added in two steps, by blocks of rows and then over those, so that their order is
 * fixed. */
#include "base/option.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/rows.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/operators/copy.h"
#include "tensor/operators/normalization_kernels.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

/* ---- gradients ---- saved: x, weight (both dense), means, scales. */
typedef struct norm_state {
    int64_t rows, n;
    bool centered;
} norm_state;

static bool launch_dx(ph__op *op, const norm_state *state, ph_tensor *dx, const ph_tensor *plus)
{
    ph_tensor *const *in = op->in;
    ph__normalize_args args = {.x = in[0]->data,
                               .w = in[1] ? in[1]->data : NULL,
                               .b = in[4]->data,
                               .y = dx->data,
                               .means = in[2] ? in[2]->data : NULL,
                               .scales = in[3]->data,
                               .rows = state->rows,
                               .n = state->n,
                               .centered = state->centered,
                               .plus = plus ? plus->data : NULL};
    return ph__norm_launch(op, &args, dx->dtype, in[4]->dtype, true);
}

/* dx, weight, bias: NULL where not needed; plus is added to dx, NULL: nothing. False: the tape has
 * failed. */
static bool launch_all(ph__op *op, const norm_state *state, ph_tensor *dx, const ph_tensor *plus,
                       ph_tensor *weight, ph_tensor *bias)
{
    ph_tensor *const *in = op->in;
    ph_dtype dtype = in[0]->dtype, out = in[4]->dtype;
    ph__normalize_parts_args args = {.x = in[0]->data,
                                     .w = in[1] ? in[1]->data : NULL,
                                     .g = in[4]->data,
                                     .means = in[2] ? in[2]->data : NULL,
                                     .scales = in[3]->data,
                                     .rows = state->rows,
                                     .n = state->n,
                                     .plus = plus ? plus->data : NULL};
    bool both = dx && ph__norm_parts_make_dx(&args, dx->data, dtype);
    args.dx = both ? dx->data : NULL;
    ph__norm_lay_parts(&args, dtype);
    ph_tensor *parts =
        ph__op_output(op, ph__compute_dtype(dtype), &PH_SHAPE(2, args.row_blocks, state->n));
    if (!parts)
        return false;
    args.parts = parts->data;
    ph__normalize_total_args total = {.parts = parts->data,
                                      .weight = weight ? weight->data : NULL,
                                      .bias = bias ? bias->data : NULL,
                                      .n = state->n,
                                      .row_blocks = args.row_blocks};
    return ph__norm_launch_parts(op, &args, dtype, out) &&
           (!dx || both || launch_dx(op, state, dx, plus)) &&
           ph__norm_launch_total(op, &total, dtype);
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
    ph_tensor *out[3] = {NULL, NULL, NULL}, *sum = call->sums[0];
    for (size_t i = sum ? 1 : 0; i < call->in_count; i++)
        if (call->needed[i] &&
            !(out[i] =
                  ph__op_output(&op, in[0]->dtype, i == 0 ? &in[0]->shape : &PH_SHAPE(state->n))))
            return;
    ph_tensor *dx = sum ? sum : out[0];
    bool ok = out[1] || out[2] ? launch_all(&op, state, dx, sum, out[1], out[2])
                               : !dx || launch_dx(&op, state, dx, sum);
    if (!ok || !ph__op_done_n(&op, out, 3))
        return;
    for (size_t i = 0; i < call->in_count; i++)
        call->in_grads[i] = i == 0 ? dx : out[i];
    call->summed[0] = sum != NULL;
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

static bool make_norm(ph__op *op, norm_work *work, const norm_state *state, ph_dtype out)
{
    ph_tensor *x = op->in[0], *w = op->in[1], *b = op->in_count > 2 ? op->in[2] : NULL;
    ph_dtype real = ph__compute_dtype(x->dtype);
    *work = (norm_work){.x = ph__dense(op->tape, x),
                        .w = ph__dense(op->tape, w),
                        .b = ph__dense(op->tape, b),
                        .y = ph__op_output(op, out, &x->shape),
                        .scales = ph__op_output(op, real, &PH_SHAPE(state->rows))};
    if (state->centered)
        work->means = ph__op_output(op, real, &PH_SHAPE(state->rows));
    return work->x && !work->w == !w && !work->b == !b && work->y && work->scales &&
           !work->means == !state->centered;
}

/* out: dtype of the result; 0: that of the operand. */
static ph_tensor *normalize_rows(ph__op *op, double eps, bool centered, ph_dtype out)
{
    norm_work work;
    if (!check_norm_operand(op, eps))
        return NULL;
    const ph_tensor *x = op->in[0];
    norm_state state = {.rows = ph__shape_product(&x->shape, 0, x->shape.rank - 1),
                        .n = x->shape.dim[x->shape.rank - 1],
                        .centered = centered};
    out = out ? out : x->dtype;
    if (!make_norm(op, &work, &state, out))
        return NULL;
    ph__normalize_args args = {.x = work.x->data,
                               .w = work.w ? work.w->data : NULL,
                               .b = work.b ? work.b->data : NULL,
                               .y = work.y->data,
                               .means = work.means ? work.means->data : NULL,
                               .scales = work.scales->data,
                               .rows = state.rows,
                               .n = state.n,
                               .eps = ph__option_real(eps, 1e-5),
                               .centered = centered};
    if (!ph__norm_launch(op, &args, x->dtype, out, false))
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

/* Where products alone read the result, it is what they would cast it to: the same bits, without
 * the f32 in between. 0: it is not so. */
static ph_dtype low_result(const ph_tape *tape, const ph_tensor *x)
{
    bool low = ph__autocast_is_on(tape) && tape->norms_for_products && x && x->count > 0;
    return low ? tape->autocast.dtype : (ph_dtype)0;
}

ph_tensor *ph_layer_norm(ph_tape *tape, ph_tensor *x, ph_tensor *weight, ph_tensor *bias,
                         double eps)
{
    ph_tensor *in[] = {x, weight, bias};
    ph__autocast cast;
    ph__op op;
    ph_dtype low = low_result(tape, x);
    bool on = ph__autocast_begin(&cast, tape, PH__AUTOCAST_F32, in, 3);
    ph_tensor *y = ph__op_begin(&op, tape, "layer_norm", in, 3, 1)
                       ? normalize_rows(&op, eps, true, low)
                       : NULL;
    return on ? ph__autocast_end(&cast, y) : y;
}

ph_tensor *ph_rms_norm(ph_tape *tape, ph_tensor *x, ph_tensor *weight, double eps)
{
    ph_tensor *in[] = {x, weight};
    ph__autocast cast;
    ph__op op;
    ph_dtype low = low_result(tape, x);
    bool on = ph__autocast_begin(&cast, tape, PH__AUTOCAST_F32, in, 2);
    ph_tensor *y =
        ph__op_begin(&op, tape, "rms_norm", in, 2, 1) ? normalize_rows(&op, eps, false, low) : NULL;
    return on ? ph__autocast_end(&cast, y) : y;
}
