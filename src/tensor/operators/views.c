/* SPDX-License-Identifier: MIT */
/* tensor/operators/views.c: other shapes and strides over the same memory, and their gradients. */
#include "tensor/core/describe.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <inttypes.h>
#include <stdio.h>

/* The facts of the call that the gradients of views need; each uses its part. */
typedef struct view_state {
    ph_shape shape; /* of x */
    int axis, axes[PH_MAX_RANK];
    int64_t begin, end, step;
} view_state;

static ph_tensor *finish(ph__op *op, ph_tensor *x, const ph_shape *shape, const int64_t *strides,
                         int64_t offset, const ph__grad_def *grad, const view_state *state)
{
    ph_tensor *y = ph__op_view(op, x, shape, strides, offset);
    view_state *kept = y && op->tracked ? ph__op_track(op, grad, 0) : NULL;
    if (kept)
        *kept = *state;
    return ph__op_done(op, y);
}

/* The axis, or -1 with the tape failed. */
static int find_axis(ph__op *op, int axis, size_t rank)
{
    int at = ph__axis(axis, rank);
    if (at < 0)
        ph__op_fail(op, PH_ERROR_ARGUMENT, "there is no axis %d", axis);
    return at;
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
    int at = find_axis(&op, axis, x->shape.rank);
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
    return finish(&op, x, &shape, strides, offset, &slice_grad, &state);
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
static ph_shape without(int64_t strides[PH_MAX_RANK], const ph_tensor *x, int axis)
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
    int at = find_axis(&op, axis, x->shape.rank);
    if (at < 0)
        return NULL;
    int64_t dim = x->shape.dim[at];
    if (index < -dim || index >= dim)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "index %" PRId64 " is outside axis %d", index,
                           axis);
    view_state state = {.shape = x->shape, .axis = at, .begin = index < 0 ? index + dim : index};
    int64_t strides[PH_MAX_RANK] = {0};
    ph_shape shape = without(strides, x, at);
    return finish(&op, x, &shape, strides, state.begin * x->stride[at], &select_grad, &state);
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

static ph_tensor *permuted(ph__op *op, ph_tensor *x, const view_state *state)
{
    ph_shape shape = {.rank = x->shape.rank};
    int64_t strides[PH_MAX_RANK] = {0};
    for (size_t i = 0; i < shape.rank; i++) {
        shape.dim[i] = x->shape.dim[state->axes[i]];
        strides[i] = x->stride[state->axes[i]];
    }
    return finish(op, x, &shape, strides, 0, &permute_grad, state);
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
        int at = find_axis(&op, axes[i], count);
        if (at < 0)
            return NULL;
        if (seen & 1u << at)
            return ph__op_fail(&op, PH_ERROR_ARGUMENT, "axis %d is named twice", axes[i]);
        seen |= 1u << at;
        state.axes[i] = at;
    }
    return permuted(&op, x, &state);
}

ph_tensor *ph_transpose(ph_tape *tape, ph_tensor *x, int axis0, int axis1)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "transpose", in, 1, 1))
        return NULL;
    int a = find_axis(&op, axis0, x->shape.rank);
    int b = a < 0 ? -1 : find_axis(&op, axis1, x->shape.rank);
    if (b < 0)
        return NULL;
    view_state state = {.shape = x->shape};
    for (int i = 0; i < (int)x->shape.rank; i++)
        state.axes[i] = i == a ? b : i == b ? a : i;
    return permuted(&op, x, &state);
}

/* ---- reshape and its kin ---- */
static void reshape_backward(ph__grad_call *call)
{
    const view_state *s = call->state;
    call->in_grads[0] = ph_reshape(call->tape, call->out_grads[0], s->shape);
}
static const ph__grad_def reshape_grad = {"reshape", sizeof(view_state), reshape_backward, NULL};

/* Strides with which shape, of as many elements, looks at x in the same order; false: there are
 * none. Dimensions of x through which one step leads are a run; each run must be made of whole
 * dimensions of shape. */
static bool restride(int64_t strides[PH_MAX_RANK], const ph_tensor *x, const ph_shape *shape)
{
    if (x->contiguous) {
        ph__shape_strides(strides, shape);
        return true;
    }
    int64_t dims[PH_MAX_RANK], runs[1][PH_MAX_RANK];
    for (size_t i = 0; i < x->shape.rank; i++) {
        dims[i] = x->shape.dim[i];
        runs[0][i] = x->stride[i];
    }
    size_t run = ph__shape_coalesce(dims, runs, 1, x->shape.rank);
    int64_t left = dims[--run], step = runs[0][run];
    for (size_t i = shape->rank; i-- > 0;) {
        int64_t dim = shape->dim[i];
        if (dim > 1 && left == 1) {
            left = dims[--run];
            step = runs[0][run];
        }
        if (left % dim != 0)
            return false;
        strides[i] = step;
        step *= dim;
        left /= dim;
    }
    return true;
}

static ph_tensor *reshaped(ph_tape *tape, ph_tensor *x, const ph_shape *shape, const char *name)
{
    int64_t strides[PH_MAX_RANK] = {0};
    if (!restride(strides, x, shape)) {
        x = ph_contiguous(tape, x);
        ph__shape_strides(strides, shape);
    }
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, name, in, 1, 1))
        return NULL;
    view_state state = {.shape = x->shape};
    return finish(&op, x, shape, strides, 0, &reshape_grad, &state);
}

/* Puts in the dimension that is -1. The words for what is wrong with it, or NULL. */
static const char *complete(ph_shape *shape, int64_t count)
{
    int unknown = -1;
    ph_shape known = *shape;
    if (shape->rank > PH_MAX_RANK)
        return "the new shape has more than 8 dimensions";
    for (int i = 0; i < (int)shape->rank; i++) {
        if (shape->dim[i] != -1)
            continue;
        if (unknown >= 0)
            return "more than one dimension of the new shape is -1";
        unknown = i;
        known.dim[i] = 1;
    }
    int64_t have = ph_shape_count(&known);
    if (have < 0)
        return "a dimension of the new shape is negative, or it has too many elements";
    if (unknown < 0)
        return have == count ? NULL : "the new shape has another number of elements";
    if (have == 0)
        return "the dimension that is -1 could be anything, as another one is 0";
    if (count % have != 0)
        return "the number of elements is no multiple of those of the new shape";
    shape->dim[unknown] = count / have;
    return NULL;
}

static void *fail_reshape(ph__op *op, const char *wrong, const ph_shape *wanted, const ph_tensor *x)
{
    char text[PH__DESCRIBE], count[48] = "";
    if (wanted->rank > PH_MAX_RANK)
        return ph__op_fail(op, PH_ERROR_ARGUMENT, "%s (%zu)", wrong, wanted->rank);
    int64_t elements = ph_shape_count(wanted);
    if (elements >= 0)
        (void)snprintf(count, sizeof count, " with %lld", (long long)elements);
    return ph__op_fail(op, PH_ERROR_ARGUMENT, "%s: to %s%s, from a tensor with %lld", wrong,
                       ph__describe_shape(text, x->dtype, wanted), count, (long long)x->count);
}

ph_tensor *ph_reshape(ph_tape *tape, ph_tensor *x, ph_shape shape)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "reshape", in, 1, 1))
        return NULL;
    const ph_shape wanted = shape;
    const char *wrong = complete(&shape, x->count);
    if (wrong)
        return fail_reshape(&op, wrong, &wanted, x);
    return reshaped(tape, x, &shape, "reshape");
}

ph_tensor *ph_flatten(ph_tape *tape, ph_tensor *x, int first_axis, int last_axis)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "flatten", in, 1, 1))
        return NULL;
    /* A scalar is taken as one element in a row, as it has no axis to name. */
    size_t rank = x->shape.rank ? x->shape.rank : 1;
    int first = find_axis(&op, first_axis, rank);
    int last = first < 0 ? -1 : find_axis(&op, last_axis, rank);
    if (last < 0)
        return NULL;
    if (last < first)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "axis %d comes behind axis %d", first_axis,
                           last_axis);
    ph_shape shape = {0};
    int64_t all = 1;
    for (int i = 0; i < (int)x->shape.rank; i++) {
        all = i >= first && i <= last ? all * x->shape.dim[i] : all;
        if (i < first || i > last)
            shape.dim[shape.rank++] = x->shape.dim[i];
        else if (i == last)
            shape.dim[shape.rank++] = all;
    }
    if (x->shape.rank == 0)
        shape = (ph_shape){1, {1}};
    return reshaped(tape, x, &shape, "flatten");
}

ph_tensor *ph_squeeze(ph_tape *tape, ph_tensor *x, int axis)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "squeeze", in, 1, 1))
        return NULL;
    int at = axis == PH_ALL_AXES ? -1 : find_axis(&op, axis, x->shape.rank);
    if (at < 0 && axis != PH_ALL_AXES)
        return NULL;
    ph_shape shape = {0};
    int64_t strides[PH_MAX_RANK] = {0};
    for (int i = 0; i < (int)x->shape.rank; i++) {
        if (x->shape.dim[i] == 1 && (i == at || at < 0))
            continue;
        strides[shape.rank] = x->stride[i];
        shape.dim[shape.rank++] = x->shape.dim[i];
    }
    view_state state = {.shape = x->shape};
    return finish(&op, x, &shape, strides, 0, &reshape_grad, &state);
}

ph_tensor *ph_unsqueeze(ph_tape *tape, ph_tensor *x, int axis)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "unsqueeze", in, 1, 1))
        return NULL;
    if (x->shape.rank == PH_MAX_RANK)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "there are %d dimensions already", PH_MAX_RANK);
    int at = find_axis(&op, axis, x->shape.rank + 1);
    if (at < 0)
        return NULL;
    ph_shape shape = {.rank = x->shape.rank + 1};
    int64_t strides[PH_MAX_RANK] = {0};
    for (int i = 0, from = 0; i < (int)shape.rank; i++) {
        shape.dim[i] = i == at ? 1 : x->shape.dim[from];
        strides[i] = i == at ? 1 : x->stride[from];
        from += i != at;
    }
    view_state state = {.shape = x->shape};
    return finish(&op, x, &shape, strides, 0, &reshape_grad, &state);
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
    return finish(&op, x, &shape, strides, 0, &expand_grad, &state);
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
