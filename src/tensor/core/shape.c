/* SPDX-License-Identifier: MIT */
/* tensor/core/shape.c: shapes and strides: what can be said of a tensor without its memory. */
#include "tensor/core/shape.h"
#include "base/checked.h"
#include "base/status.h"
#include "tensor/core/describe.h"

bool ph_shape_equal(const ph_shape *a, const ph_shape *b)
{
    if (!a || !b || a->rank != b->rank || a->rank > PH_MAX_RANK)
        return false;
    for (size_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

/* A dimension of 0 does not hide an overflow of the others: strides are made of their products. */
int64_t ph_shape_count(const ph_shape *shape)
{
    if (!shape || shape->rank > PH_MAX_RANK)
        return -1;
    int64_t count = 1;
    bool empty = false;
    for (size_t i = 0; i < shape->rank; i++) {
        int64_t dim = shape->dim[i];
        if (dim < 0 || (dim > 0 && __builtin_mul_overflow(count, dim, &count)))
            return -1;
        empty = empty || dim == 0;
    }
    return empty ? 0 : count;
}

ph_status ph__shape_check(size_t *bytes, ph_dtype dtype, const ph_shape *shape, const char *call)
{
    if (ph_dtype_size(dtype) == 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %d is no dtype", call, (int)dtype);
    if (shape->rank > PH_MAX_RANK)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: a rank of %zu; at most %d dimensions", call,
                       shape->rank, PH_MAX_RANK);
    int64_t count = ph_shape_count(shape);
    if (count >= 0 && ph__mul((size_t)count, ph_dtype_size(dtype), bytes) && *bytes <= PTRDIFF_MAX)
        return PH_OK;
    char text[PH__DESCRIBE];
    (void)ph__describe_shape(text, dtype, shape);
    for (size_t i = 0; i < shape->rank; i++)
        if (shape->dim[i] < 0)
            return ph_fail(PH_ERROR_ARGUMENT, "%s: dimension %zu of %s is negative", call, i, text);
    return ph_fail(PH_ERROR_SIZE, "%s: %s has more elements than any memory", call, text);
}

void ph__shape_strides(int64_t strides[PH_MAX_RANK], const ph_shape *shape)
{
    int64_t step = 1;
    for (size_t i = shape->rank; i-- > 0;) {
        strides[i] = step;
        step *= shape->dim[i] > 1 ? shape->dim[i] : 1;
    }
}

int64_t ph__shape_extent(const ph_shape *shape, const int64_t *strides)
{
    int64_t extent = 1, part;
    bool empty = false;
    for (size_t i = 0; i < shape->rank; i++) {
        empty = empty || shape->dim[i] == 0;
        if (strides[i] < 0)
            return -1;
        if (shape->dim[i] > 1 && (__builtin_mul_overflow(shape->dim[i] - 1, strides[i], &part) ||
                                  __builtin_add_overflow(extent, part, &extent)))
            return -1;
    }
    return empty ? 0 : extent;
}

bool ph__shape_broadcast(ph_shape *out, const ph_shape *a, const ph_shape *b)
{
    ph_shape shape = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (size_t i = 0; i < shape.rank; i++) {
        /* Dimensions are matched from the last one on; those that are not there are 1. */
        size_t back = shape.rank - i;
        int64_t x = back <= a->rank ? a->dim[a->rank - back] : 1;
        int64_t y = back <= b->rank ? b->dim[b->rank - back] : 1;
        if (x != y && x != 1 && y != 1)
            return false;
        shape.dim[i] = x == 1 ? y : x;
    }
    *out = shape;
    return true;
}

int ph__axis(int axis, size_t rank)
{
    int count = (int)rank;
    if (axis < -count || axis >= count)
        return -1;
    return axis < 0 ? axis + count : axis;
}

static bool steps_alike(int64_t (*strides)[PH_MAX_RANK], size_t operands, size_t outer,
                        size_t inner, int64_t inner_dim)
{
    for (size_t o = 0; o < operands; o++)
        if (strides[o][outer] != strides[o][inner] * inner_dim)
            return false;
    return true;
}

/* Works from the front: `last` is the dimension that the next one may be merged into. */
size_t ph__shape_coalesce(int64_t dims[PH_MAX_RANK], int64_t (*strides)[PH_MAX_RANK],
                          size_t operands, size_t rank)
{
    size_t count = 0;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] == 0) {
            dims[0] = 0;
            for (size_t o = 0; o < operands; o++)
                strides[o][0] = 1;
            return 1;
        }
        if (dims[i] == 1)
            continue;
        bool merge = count > 0 && steps_alike(strides, operands, count - 1, i, dims[i]);
        size_t to = merge ? count - 1 : count++;
        dims[to] = merge ? dims[to] * dims[i] : dims[i];
        for (size_t o = 0; o < operands; o++)
            strides[o][to] = strides[o][i];
    }
    if (count > 0)
        return count;
    dims[0] = 1;
    for (size_t o = 0; o < operands; o++)
        strides[o][0] = 1;
    return 1;
}
