/* SPDX-License-Identifier: MIT */
/* tensor/operators/views.c: slices, permutations and expansions over the same memory, and their
 * gradients. */
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include <inttypes.h>
#include <stdio.h>

/* The facts of the call that the gradients of views need; each uses its part. */
typedef struct view_state {
    ph_shape shape; /* of x */
    int axis, axes[PH_MAX_RANK];
    int64_t begin, end, step;
} view_state;

static ph_tensor *finish_view(ph__op *op, ph_tensor *x, const ph_shape *shape,
                              const int64_t *strides, int64_t offset, const ph__grad_def *grad,
                              const view_state *state)
{
    ph_tensor *y = ph__op_view(op, x, shape, strides, offset);
    view_state *kept = y && op->tracked ? ph__op_track(op, grad, 0) : NULL;
    if (kept)
        *kept = *state;
    return ph__op_done(op, y);
}

/* ---- slice and select ---- */
static void slice_backward(ph__grad_call *call)
{
    const view_state *s = call->state;
    ph_tensor *g = call->out_grads[0];
    if (ph_shape_equal(&g->shape, &s->shape)) {
        call->in_grads[0] = g;
        return;
    }
    ph_tensor *whole = ph_zeros(call->tape, g->dtype, s->shape);
    ph_tensor_copy(call->tape, ph_slice_step(call->tape, whole, s->axis, s->begin, s->end, s->step),
                   g);
    call->in_grads[0] = whole;
}
static const ph__grad_def slice_grad = {"slice", sizeof(view_state), slice_backward, NULL};

static int64_t clamp_index(int64_t index, int64_t dim)
{
    index = index < 0 && index >= -dim ? index + dim : index;
    return index < 0 ? 0 : index > dim ? dim : index;
}

ph_tensor *ph_slice_step(ph_tape *tape, ph_tensor *x, int axis, int64_t begin, int64_t end,
                         int64_t step)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "slice", in, 1, 1))
        return NULL;
    int at = ph__op_axis(&op, axis, x->shape.rank);
    if (at < 0)
        return NULL;
    if (step < 1)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "a step of %" PRId64 "; it must be at least 1",
                           step);
    view_state state = {.shape = x->shape, .axis = at, .step = step};
    state.begin = clamp_index(begin, x->shape.dim[at]);
    state.end = clamp_index(end, x->shape.dim[at]);
    int64_t span = state.end > state.begin ? state.end - state.begin : 0;
    ph_shape shape = x->shape;
    int64_t strides[PH_MAX_RANK] = {0};
    for (size_t i = 0; i < shape.rank; i++)
        strides[i] = x->stride[i];
    shape.dim[at] = span / step + (span % step != 0);
    /* With at most one element there is nothing to step over, and a huge step must not overflow. */
    if (shape.dim[at] > 1)
        strides[at] *= step;
    int64_t offset = span > 0 ? state.begin * x->stride[at] : 0;
    return finish_view(&op, x, &shape, strides, offset, &slice_grad, &state);
}

ph_tensor *ph_slice(ph_tape *tape, ph_tensor *x, int axis, int64_t begin, int64_t end)
{
    return ph_slice_step(tape, x, axis, begin, end, 1);
}

static void select_backward(ph__grad_call *call)
{
    const view_state *s = call->state;
    ph_tensor *g = call->out_grads[0];
    ph_tensor *whole = ph_zeros(call->tape, g->dtype, s->shape);
    ph_tensor_copy(call->tape, ph_select(call->tape, whole, s->axis, s->begin), g);
    call->in_grads[0] = whole;
}
static const ph__grad_def select_grad = {"select", sizeof(view_state), select_backward, NULL};

/* shape and strides of x without the axis. */
static ph_shape shape_without_axis(int64_t strides[PH_MAX_RANK], const ph_tensor *x, int axis)
{
    ph_shape shape = {0};
    for (size_t i = 0; i < x->shape.rank; i++) {
        if (i == (size_t)axis)
            continue;
        strides[shape.rank] = x->stride[i];
        shape.dim[shape.rank++] = x->shape.dim[i];
    }
    return shape;
}

ph_tensor *ph_select(ph_tape *tape, ph_tensor *x, int axis, int64_t index)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "select", in, 1, 1))
        return NULL;
    int at = ph__op_axis(&op, axis, x->shape.rank);
    if (at < 0)
        return NULL;
    int64_t dim = x->shape.dim[at];
    if (index < -dim || index >= dim)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "index %" PRId64 " is outside axis %d", index,
                           axis);
    view_state state = {.shape = x->shape, .axis = at, .begin = index < 0 ? index + dim : index};
    int64_t strides[PH_MAX_RANK] = {0};
    ph_shape shape = shape_without_axis(strides, x, at);
    return finish_view(&op, x, &shape, strides, state.begin * x->stride[at], &select_grad, &state);
}

/* ---- permute and transpose ---- */
static void permute_backward(ph__grad_call *call)
{
    const view_state *s = call->state;
    int inverse[PH_MAX_RANK];
    for (int i = 0; i < (int)s->shape.rank; i++)
        inverse[s->axes[i]] = i;
    call->in_grads[0] = ph_permute(call->tape, call->out_grads[0], inverse, s->shape.rank);
}
static const ph__grad_def permute_grad = {"permute", sizeof(view_state), permute_backward, NULL};

static ph_tensor *permute_view(ph__op *op, ph_tensor *x, const view_state *state)
{
    ph_shape shape = {.rank = x->shape.rank};
    int64_t strides[PH_MAX_RANK] = {0};
    for (size_t i = 0; i < shape.rank; i++) {
        shape.dim[i] = x->shape.dim[state->axes[i]];
        strides[i] = x->stride[state->axes[i]];
    }
    return finish_view(op, x, &shape, strides, 0, &permute_grad, state);
}

ph_tensor *ph_permute(ph_tape *tape, ph_tensor *x, const int *axes, size_t count)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "permute", in, 1, 1))
        return NULL;
    if (count != x->shape.rank)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "%zu axes are named", count);
    if (count > 0 && !axes)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "axes is NULL, and must not be");
    view_state state = {.shape = x->shape};
    unsigned seen = 0;
    for (size_t i = 0; i < count; i++) {
        int at = ph__op_axis(&op, axes[i], count);
        if (at < 0)
            return NULL;
        if (seen & 1u << at)
            return ph__op_fail(&op, PH_ERROR_ARGUMENT, "axis %d is named twice", axes[i]);
        seen |= 1u << at;
        state.axes[i] = at;
    }
    return permute_view(&op, x, &state);
}

ph_tensor *ph_transpose(ph_tape *tape, ph_tensor *x, int axis0, int axis1)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "transpose", in, 1, 1))
        return NULL;
    int a = ph__op_axis(&op, axis0, x->shape.rank);
    int b = a < 0 ? -1 : ph__op_axis(&op, axis1, x->shape.rank);
    if (b < 0)
        return NULL;
    view_state state = {.shape = x->shape};
    for (int i = 0; i < (int)x->shape.rank; i++)
        state.axes[i] = i == a ? b : i == b ? a : i;
    return permute_view(&op, x, &state);
}

/* ---- expand ---- the engine sums a gradient over what broadcasting added. */
static void expand_backward(ph__grad_call *call)
{
    call->in_grads[0] = call->out_grads[0];
}
static const ph__grad_def expand_grad = {"expand", sizeof(view_state), expand_backward, NULL};

ph_tensor *ph_expand(ph_tape *tape, ph_tensor *x, ph_shape shape)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "expand", in, 1, 1))
        return NULL;
    if (ph_shape_count(&shape) < 0)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT,
                           "the new shape is none, or has too many elements");
    if (shape.rank < x->shape.rank)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "the new shape has fewer dimensions");
    int64_t strides[PH_MAX_RANK] = {0};
    size_t front = shape.rank - x->shape.rank;
    for (size_t i = front; i < shape.rank; i++) {
        int64_t dim = x->shape.dim[i - front];
        if (dim != shape.dim[i] && dim != 1)
            return ph__op_fail(&op, PH_ERROR_ARGUMENT, "dimension %zu cannot become %" PRId64,
                               i - front, shape.dim[i]);
        strides[i] = dim == 1 ? 0 : x->stride[i - front];
    }
    view_state state = {.shape = x->shape};
    return finish_view(&op, x, &shape, strides, 0, &expand_grad, &state);
}

/* Also of what has history on another tape: none of it comes along. */
ph_tensor *ph_detach(ph_tape *tape, ph_tensor *x)
{
    ph__op op;
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    bool begun = ph__op_begin(&op, tape, "detach", (ph_tensor *[]){x}, 1, 1);
    ph_tape_set_grad_enabled(tape, enabled);
    return begun ? ph__op_done(&op, ph__op_view(&op, x, &x->shape, x->stride, 0)) : NULL;
}
