/* SPDX-License-Identifier: MIT */
/* tensor/kernels/indexing_kernels.h: kernels that read and write where an index says. */
#ifndef PH_TENSOR_KERNELS_INDEXING_KERNELS_H
#define PH_TENSOR_KERNELS_INDEXING_KERNELS_H
#include "tensor/kernels/rows.h"

/* Where the elements of an index tensor point: n places along the axis, step apart; dim and
 * stride are those of the index tensor and of what it points into, with a stride of 0 along the
 * axis. In elements. */
typedef struct ph__places {
    int64_t rank, n, step;
    int64_t dim[PH_MAX_RANK], stride[PH_MAX_RANK];
} ph__places;
/* x along axis, by an index tensor of this shape. */
ph__places ph__places_of(const ph_tensor *x, size_t axis, const ph_shape *index);
/* Of element i of the index tensor, without the axis. */
int64_t ph__place_of(const ph__places *at, int64_t i);

/* ---- arguments ---- addresses, then sizes. wide: the index is of i64, else i32. bad: what is
 * read where the index is out of range, in each of the word's elements. */
typedef struct ph__take_args {
    const void *x, *index;
    void *out;
    int64_t total, n, count, inner,
        wide; /* out[o][i][r] = x[o][index[i]][r], i < count, r < inner; in words; total: of out */
    uint64_t bad;
} ph__take_args;
typedef struct ph__gather_args {
    const void *x, *index;
    void *out;
    ph__places at;
    int64_t total, wide;
    uint64_t bad;
} ph__gather_args;
/* winners: u32 for each place, 0 at first: 1 + the number of the last element that points there. */
typedef struct ph__claim_args {
    const void *index;
    void *winners;
    ph__places at;
    int64_t total, wide;
} ph__claim_args;
/* Winners write their element of src, which has the index's shape; src NULL: all write 0. */
typedef struct ph__write_args {
    const void *src, *index, *winners;
    void *out;
    ph__places at;
    int64_t total, wide;
} ph__write_args;
/* out, of the index's shape: g where the element is a winner, else 0. */
typedef struct ph__winners_grad_args {
    const void *g, *index, *winners;
    void *out;
    ph__places at;
    int64_t total, wide;
} ph__winners_grad_args;
/* A column: all elements of the index that differ along the axis alone; it has so many (length),
 * inner apart. at is without the axis. */
typedef struct ph__add_columns_args {
    const void *src, *index;
    void *out;
    ph__places at;
    int64_t columns, length, inner, wide;
} ph__add_columns_args;

enum {
    PH__TAKE_BLOCK = 512,  /* words of a block */
    PH__INDEX_BLOCK = 256, /* elements of a block */
    PH__COLUMN_BLOCK = 128
};

/* By the size of a word: 1, 2, 4, 8, 16 bytes (take), 1 to 8 (others): [0] is 1 byte's, [1] 2
 * bytes', and so on. */
extern ph__kernel_def ph__take_kernels[5], ph__gather_kernels[4], ph__write_kernels[4],
    ph__winners_grad_kernels[4];
extern ph__kernel_def ph__claim_kernel;
/* f32, f64, i32, i64, u8; NULL for others. */
ph__kernel_def *ph__add_columns_kernel(ph_dtype dtype);
/* The element that a read gives where its index is out of range: NaN, or 0; in each element of a
 * word of 8 bytes. */
uint64_t ph__bad_value(ph_dtype dtype);
static inline size_t ph__size_slot(size_t bytes)
{
    return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : bytes == 8 ? 3 : 4;
}

#endif
