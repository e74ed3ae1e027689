/* SPDX-License-Identifier: MIT */
/* tensor/operators/concat.c: concat, stack and split: copies into one tensor, and views of one. */
#include "base/alloc.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/rows.h"
#include "tensor/operators/autocast_operands.h"
#include "tensor/tape/autocast.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"

/* ---- concat ---- its gradient: views of the result's. */
typedef struct concat_state {
    int axis;
    int64_t *sizes; /* one for each operand, along axis */
} concat_state;

static void concat_release(void *state)
{
    concat_state *s = state;
    ph__free(s->sizes);
    s->sizes = NULL;
}

static void concat_backward(ph__grad_call *call)
{
    const concat_state *state = call->state;
    int64_t at = 0;
    for (size_t i = 0; i < call->in_count; i++) {
        if (call->needed[i])
            call->in_grads[i] =
                ph_slice(call->tape, call->out_grads[0], state->axis, at, at + state->sizes[i]);
        at += state->sizes[i];
    }
}
static const ph__grad_def concat_grad = {"concat", sizeof(concat_state), concat_backward,
                                         concat_release};

/* The shape of the result; false: the tape has failed. */
static bool join_shapes(ph__op *op, int wanted, int *axis, ph_shape *shape)
{
    *shape = op->in[0]->shape;
    *axis = ph__axis(wanted, shape->rank);
    if (*axis < 0) {
        ph__op_fail(op, PH_ERROR_ARGUMENT, "there is no axis %d", wanted);
        return false;
    }
    for (size_t i = 1; i < op->in_count; i++) {
        const ph_tensor *x = op->in[i];
        bool fits = x->dtype == op->in[0]->dtype && x->shape.rank == shape->rank;
        for (size_t d = 0; fits && d < shape->rank; d++)
            fits = (int)d == *axis || x->shape.dim[d] == shape->dim[d];
        if (!fits ||
            __builtin_add_overflow(shape->dim[*axis], x->shape.dim[*axis], &shape->dim[*axis])) {
            ph__op_fail(op, PH_ERROR_ARGUMENT,
                        "all must be of one dtype (ph_cast those of another), and of one shape but "
                        "for axis %d",
                        wanted);
            return false;
        }
    }
    return true;
}

/* Each operand to its part of out. */
static bool copy_in(ph__op *op, ph_tensor *out, int axis)
{
    bool enabled = ph_tape_set_grad_enabled(op->tape, false);
    int64_t at = 0;
    for (size_t i = 0; i < op->in_count; i++) {
        ph_shape shape = op->in[i]->shape;
        if (op->in[i]->count > 0) {
            ph_tensor *part = ph__op_view(op, out, &shape, out->stride, at * out->stride[axis]);
            if (part)
                ph_tensor_copy(op->tape, part, op->in[i]);
        }
        at += shape.dim[axis];
    }
    ph_tape_set_grad_enabled(op->tape, enabled);
    return !ph__tape_failed(op->tape);
}

static bool track_concat(ph__op *op, int axis)
{
    concat_state *state = ph__op_track(op, &concat_grad, 0);
    if (!state)
        return false;
    state->axis = axis;
    state->sizes = ph__calloc(op->in_count, sizeof *state->sizes);
    if (!state->sizes) {
        ph__op_fail(op, PH_ERROR_HOST_MEMORY, "no host memory for its history");
        return false;
    }
    for (size_t i = 0; i < op->in_count; i++)
        state->sizes[i] = op->in[i]->shape.dim[axis];
    return true;
}

static ph_tensor *concat_tensors(ph_tape *tape, const char *name, ph_tensor *const *tensors,
                                 size_t count, int wanted)
{
    ph__op op;
    ph_shape shape;
    int axis;
    if (!ph__op_begin(&op, tape, name, tensors, tensors ? count : 0, count))
        return NULL;
    if (!tensors || count == 0)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "there must be a tensor");
    if (!join_shapes(&op, wanted, &axis, &shape))
        return NULL;
    ph_tensor *out = ph__op_output(&op, tensors[0]->dtype, &shape);
    if (!out || !copy_in(&op, out, axis) || (op.tracked && !track_concat(&op, axis)))
        return NULL;
    return ph__op_done(&op, out);
}

static bool is_autocast(const ph_tape *tape, ph_tensor *const *tensors, size_t count)
{
    return ph__autocast_is_on(tape) && tensors && count > 0;
}

/* Calls the operator with its tensors cast to one dtype. */
static ph_tensor *call_autocast(ph_tensor *(*operator)(ph_tape *, ph_tensor *const *, size_t, int),
                                ph_tape *tape, const char *name, ph_tensor *const *tensors,
                                size_t count, int axis)
{
    ph__autocast cast;
    ph_tensor **in = ph__calloc(count, sizeof *in);
    if (!in) {
        ph__tape_fail_host_memory(tape, name, "a list of tensors");
        return NULL;
    }
    memcpy(in, tensors, count * sizeof *in);
    ph__autocast_operands(&cast, tape, PH__AUTOCAST_WIDEST, in, count);
    ph_tensor *out = ph__autocast_end(&cast, operator(tape, in, count, axis));
    ph__free(in);
    return out;
}

ph_tensor *ph_concat(ph_tape *tape, ph_tensor *const *tensors, size_t count, int axis)
{
    if (is_autocast(tape, tensors, count))
        return call_autocast(ph_concat, tape, "concat", tensors, count, axis);
    return concat_tensors(tape, "concat", tensors, count, axis);
}

/* ---- stack ---- each gets a new axis, along which they are joined. */
ph_tensor *ph_stack(ph_tape *tape, ph_tensor *const *tensors, size_t count, int axis)
{
    ph__op op;
    if (is_autocast(tape, tensors, count))
        return call_autocast(ph_stack, tape, "stack", tensors, count, axis);
    if (!ph__op_begin(&op, tape, "stack", tensors, tensors ? count : 0, count))
        return NULL;
    if (!tensors || count == 0)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "there must be a tensor");
    int at = ph__axis(axis, tensors[0]->shape.rank + 1);
    if (at < 0)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "there is no axis %d", axis);
    for (size_t i = 1; i < count; i++)
        if (!ph_shape_equal(&tensors[i]->shape, &tensors[0]->shape))
            return ph__op_fail(&op, PH_ERROR_ARGUMENT, "all must be of one shape");
    ph_tensor **views = ph__calloc(count, sizeof *views);
    if (!views)
        return ph__op_fail(&op, PH_ERROR_HOST_MEMORY, "no host memory for a list of %zu tensors",
                           count);
    for (size_t i = 0; i < count; i++)
        views[i] = ph_unsqueeze(tape, tensors[i], at);
    ph_tensor *out =
        !ph__tape_failed(tape) ? concat_tensors(tape, "stack", views, count, at) : NULL;
    ph__free(views);
    return out;
}

/* ---- split ---- one node gives all the views, so that their gradients are joined by one
 * concat. */
typedef struct split_state {
    ph_shape shape; /* of the operand */
    ph_dtype dtype;
    int axis;
    int64_t *sizes;
} split_state;

static void split_release(void *state)
{
    split_state *s = state;
    ph__free(s->sizes);
    s->sizes = NULL;
}

static void split_grad_backward(ph__grad_call *call)
{
    const split_state *state = call->state;
    ph_tape *tape = call->tape;
    ph_tensor **grads = ph__calloc(call->out_count, sizeof *grads);
    if (!grads) {
        ph_tape_fail(tape, PH_ERROR_HOST_MEMORY,
                     "split backward: no host memory for a list of %zu tensors", call->out_count);
        return;
    }
    for (size_t i = 0; i < call->out_count; i++) {
        ph_shape shape = state->shape;
        shape.dim[state->axis] = state->sizes[i];
        grads[i] = call->out_grads[i] ? call->out_grads[i] : ph_zeros(tape, state->dtype, shape);
    }
    if (!ph__tape_failed(tape))
        call->in_grads[0] =
            concat_tensors(tape, "split backward", grads, call->out_count, state->axis);
    ph__free(grads);
}
static const ph__grad_def split_grad = {"split", sizeof(split_state), split_grad_backward,
                                        split_release};

static bool track_split(ph__op *op, int axis, const int64_t *sizes, size_t count)
{
    split_state *state = ph__op_track(op, &split_grad, 0);
    if (!state)
        return false;
    state->shape = op->in[0]->shape;
    state->dtype = op->in[0]->dtype;
    state->axis = axis;
    state->sizes = ph__calloc(count, sizeof *state->sizes);
    if (!state->sizes) {
        ph__op_fail(op, PH_ERROR_HOST_MEMORY, "no host memory for its history");
        return false;
    }
    memcpy(state->sizes, sizes, count * sizeof *sizes);
    return true;
}

static bool sizes_fit(int64_t whole, const int64_t *sizes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (sizes[i] < 0 || sizes[i] > whole)
            return false;
        whole -= sizes[i];
    }
    return whole == 0;
}

static bool split_tensor(ph__op *op, ph_tensor **out, int wanted, const int64_t *sizes,
                         size_t count)
{
    const ph_tensor *x = op->in[0];
    int axis = ph__axis(wanted, x->shape.rank);
    if (axis < 0) {
        ph__op_fail(op, PH_ERROR_ARGUMENT, "there is no axis %d", wanted);
        return false;
    }
    if (!out) {
        ph__op_fail(op, PH_ERROR_ARGUMENT, "out is NULL");
        return false;
    }
    if (!sizes || count == 0 || !sizes_fit(x->shape.dim[axis], sizes, count)) {
        ph__op_fail(op, PH_ERROR_ARGUMENT, "the sizes must add up to the operand's along axis %d",
                    wanted);
        return false;
    }
    int64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        ph_shape shape = x->shape;
        shape.dim[axis] = sizes[i];
        out[i] = ph__op_view(op, op->in[0], &shape, x->stride, at * x->stride[axis]);
        if (!out[i])
            return false;
        at += sizes[i];
    }
    return (!op->tracked || track_split(op, axis, sizes, count)) && ph__op_done_n(op, out, count);
}

void ph_split(ph_tape *tape, ph_tensor **out, ph_tensor *x, int axis, const int64_t *sizes,
              size_t count)
{
    ph_tensor *in[] = {x};
    ph__op op;
    bool ok =
        ph__op_begin(&op, tape, "split", in, 1, 1) && split_tensor(&op, out, axis, sizes, count);
    for (size_t i = 0; !ok && out && i < count; i++)
        out[i] = NULL;
}
