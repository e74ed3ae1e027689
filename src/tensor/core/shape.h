/* SPDX-License-Identifier: MIT */
/* tensor/core/shape.h: shapes and strides: what can be said of a tensor without its memory. */
#ifndef PH_TENSOR_CORE_SHAPE_H
#define PH_TENSOR_CORE_SHAPE_H
#include <phonograph/operators.h>

/* All with checked arithmetic. check: ARGUMENT or SIZE, named after call,
 * unless a tensor of that dtype and shape can be; bytes: of its elements. */
ph_status ph__shape_check(size_t *bytes, ph_dtype dtype, const ph_shape *shape, const char *call);
/* Elements from the first to behind the last one; 0 when empty; -1: a negative stride, or an
 * overflow. */
int64_t ph__shape_extent(const ph_shape *shape, const int64_t *strides);
/* Why several elements are one in memory; NULL where each has a place of its own. Strides that
 * cannot be told apart in some thousand steps count as those that overlap. */
const char *ph__shape_shared_elements(const ph_shape *shape, const int64_t *strides);
void ph__shape_strides(int64_t strides[PH_MAX_RANK], const ph_shape *shape);
/* ph_shape_equal, of shapes of tensors. */
static inline bool ph__shape_same(const ph_shape *a, const ph_shape *b)
{
    size_t i = 0;
    if (a->rank != b->rank)
        return false;
    while (i < a->rank && a->dim[i] == b->dim[i])
        i++;
    return i == a->rank;
}
/* False: they do not broadcast. */
bool ph__shape_broadcast(ph_shape *out, const ph_shape *a, const ph_shape *b);
/* 0..rank-1 (negative ones count from the end), or -1: no such axis. */
int ph__axis(int axis, size_t rank);
/* Merges neighbouring dimensions that all operands step through alike, and drops those of 1:
 * fewer, larger loops. strides[o][axis] in elements (stride 0: broadcast); gives the new rank
 * (at least 1 for count > 0). */
size_t ph__shape_coalesce(int64_t dims[PH_MAX_RANK], int64_t (*strides)[PH_MAX_RANK],
                          size_t operands, size_t rank);
#endif
