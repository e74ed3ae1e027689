/* SPDX-License-Identifier: MIT */
/* tensor/operators/reshape.c: other shapes over the same elements, and their gradient. */
#include "tensor/core/describe.h"
#include "tensor/core/shape.h"
#include "tensor/tape/grad_def.h"
#include "tensor/tape/op.h"
#include <stdio.h>

static void reshape_backward(ph__grad_call *call)
{
    const ph_shape *shape = call->state; /* of x */
    call->in_grads[0] = ph_reshape(call->tape, call->out_grads[0], *shape);
}
static const ph__grad_def reshape_grad = {"reshape", sizeof(ph_shape), reshape_backward, NULL};

static ph_tensor *finish_reshape(ph__op *op, ph_tensor *x, const ph_shape *shape,
                                 const int64_t *strides)
{
    ph_tensor *y = ph__op_view(op, x, shape, strides, 0);
    ph_shape *kept = y && op->tracked ? ph__op_track(op, &reshape_grad, 0) : NULL;
    if (kept)
        *kept = x->shape;
    return ph__op_done(op, y);
}

/* Strides with which shape, of as many elements, looks at x in the same order; false: there are
 * none. Dimensions of x through which one step leads are a run; each run must be made of whole
 * dimensions of shape. */
static bool find_strides(int64_t strides[PH_MAX_RANK], const ph_tensor *x, const ph_shape *shape)
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

static ph_tensor *reshape_or_copy(ph_tape *tape, ph_tensor *x, const ph_shape *shape,
                                  const char *name)
{
    int64_t strides[PH_MAX_RANK] = {0};
    if (!find_strides(strides, x, shape)) {
        x = ph_contiguous(tape, x);
        ph__shape_strides(strides, shape);
    }
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, name, in, 1, 1))
        return NULL;
    return finish_reshape(&op, x, shape, strides);
}

/* Puts in the dimension that is -1. The words for what is wrong with it, or NULL. */
static const char *complete_shape(ph_shape *shape, int64_t count)
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
    const char *wrong = complete_shape(&shape, x->count);
    if (wrong)
        return fail_reshape(&op, wrong, &wanted, x);
    return reshape_or_copy(tape, x, &shape, "reshape");
}

ph_tensor *ph_flatten(ph_tape *tape, ph_tensor *x, int first_axis, int last_axis)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "flatten", in, 1, 1))
        return NULL;
    /* A scalar is taken as one element in a row, as it has no axis to name. */
    size_t rank = x->shape.rank ? x->shape.rank : 1;
    int first = ph__op_axis(&op, first_axis, rank);
    int last = first < 0 ? -1 : ph__op_axis(&op, last_axis, rank);
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
    return reshape_or_copy(tape, x, &shape, "flatten");
}

ph_tensor *ph_squeeze(ph_tape *tape, ph_tensor *x, int axis)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "squeeze", in, 1, 1))
        return NULL;
    int at = axis == PH_ALL_AXES ? -1 : ph__op_axis(&op, axis, x->shape.rank);
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
    return finish_reshape(&op, x, &shape, strides);
}

ph_tensor *ph_unsqueeze(ph_tape *tape, ph_tensor *x, int axis)
{
    ph_tensor *in[] = {x};
    ph__op op;
    if (!ph__op_begin(&op, tape, "unsqueeze", in, 1, 1))
        return NULL;
    if (x->shape.rank == PH_MAX_RANK)
        return ph__op_fail(&op, PH_ERROR_ARGUMENT, "there are %d dimensions already", PH_MAX_RANK);
    int at = ph__op_axis(&op, axis, x->shape.rank + 1);
    if (at < 0)
        return NULL;
    ph_shape shape = {.rank = x->shape.rank + 1};
    int64_t strides[PH_MAX_RANK] = {0};
    for (int i = 0, from = 0; i < (int)shape.rank; i++) {
        shape.dim[i] = i == at ? 1 : x->shape.dim[from];
        strides[i] = i == at ? 1 : x->stride[from];
        from += i != at;
    }
    return finish_reshape(&op, x, &shape, strides);
}
