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

/* ---- elements that are one ---- Two elements are one where the difference of their indices d is
 * not 0 and the sum of d[i] * stride[i] is. */
enum {
    MOST_STEPS = 4096
};
typedef struct differences {
    size_t count;
    int64_t stride[PH_MAX_RANK];      /* the longest first */
    int64_t most[PH_MAX_RANK];        /* of |d| */
    int64_t reach[PH_MAX_RANK + 1];   /* the largest sum from here on */
    int64_t divisor[PH_MAX_RANK + 1]; /* of all strides from here on */
    unsigned steps;
} differences;

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void add_dimension(differences *to, int64_t dim, int64_t stride)
{
    size_t at = to->count++;
    for (; at > 0 && to->stride[at - 1] < stride; at--) {
        to->stride[at] = to->stride[at - 1];
        to->most[at] = to->most[at - 1];
    }
    to->stride[at] = stride;
    to->most[at] = dim - 1;
}

/* The usual case: a step is longer than all steps of the inner dimensions together. */
static bool are_nested(differences *of)
{
    bool nested = true;
    of->reach[of->count] = of->divisor[of->count] = 0;
    for (size_t i = of->count; i-- > 0;) {
        nested = nested && of->stride[i] > of->reach[i + 1];
        of->reach[i] = of->reach[i + 1] + of->most[i] * of->stride[i];
    }
    return nested;
}

static int64_t divide_down(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Whether some d from `at` on takes `sum` to 0; moved: not all d before it are 0. Of a difference
 * and its opposite one is enough. True where the steps are used up. */
static bool reach_zero(differences *of, size_t at, int64_t sum, bool moved)
{
    if (at == of->count)
        return moved && sum == 0;
    if (sum % of->divisor[at] != 0)
        return false;
    int64_t step = of->stride[at], most = of->most[at], rest = of->reach[at + 1];
    int64_t first = -divide_down(rest + sum, step), last = divide_down(rest - sum, step);
    if (first < (moved ? -most : 0))
        first = moved ? -most : 0;
    if (last > most)
        last = most;
    for (int64_t d = first; d <= last; d++)
        if (of->steps++ == MOST_STEPS || reach_zero(of, at + 1, sum + d * step, moved || d != 0))
            return true;
    return false;
}

const char *ph__shape_shared_elements(const ph_shape *shape, const int64_t *strides)
{
    differences of = {0};
    if (ph__shape_extent(shape, strides) == 0)
        return NULL;
    for (size_t i = 0; i < shape->rank; i++) {
        if (shape->dim[i] == 1)
            continue;
        if (strides[i] == 0)
            return "is expanded";
        add_dimension(&of, shape->dim[i], strides[i]);
    }
    if (are_nested(&of))
        return NULL;
    if (of.reach[0] > INT64_MAX / 4)
        return "has strides that go beyond any memory";
    for (size_t i = of.count; i-- > 0;)
        of.divisor[i] = common_divisor(of.stride[i], of.divisor[i + 1]);
    if (!reach_zero(&of, 0, 0, false))
        return NULL;
    return of.steps > MOST_STEPS ? "has strides that may overlap" : "has strides that overlap";
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
