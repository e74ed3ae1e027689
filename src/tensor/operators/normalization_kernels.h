/* SPDX-License-Identifier: MIT */
/* tensor/operators/normalization_kernels.h: the kernels of layer_norm and rms_norm. dtype is that
 * of x, weight, bias and their gradients; out, of y and its gradient, is the same, or a half type
 * where dtype is f32. */
#ifndef PH_TENSOR_OPERATORS_NORMALIZATION_KERNELS_H
#define PH_TENSOR_OPERATORS_NORMALIZATION_KERNELS_H
#include "tensor/tape/op.h"

/* y = (x - mean) * scale * w + b. In backward b is the gradient of y, and y that of x. w, b: may
 * be NULL. */
typedef struct ph__normalize_args {
    const void *x, *w, *b;
    void *y, *means, *scales;
    int64_t rows, n;
    double eps;
    int64_t centered; /* layer_norm; else the mean is taken as 0, and means is not looked at */
    int64_t rows_a_block;
    const void *plus; /* in backward: is added to the gradient of x; it may be y. NULL: 0 */
} ph__normalize_args;

/* parts: [2][row_blocks][n] in the dtype to compute in: of weight, of bias. tiles: of columns.
 * means NULL:
 * 0. dx (and w, which may be NULL): for the kernel that makes the gradient of x too, of the same
 *    rows; it has one tile. */
typedef struct ph__normalize_parts_args {
    const void *x, *w, *g;
    void *dx;
    const void *means, *scales;
    void *parts;
    int64_t rows, n, rows_a_block, row_blocks, tiles;
    const void *plus; /* is added to dx; it may be dx. NULL: 0 */
} ph__normalize_parts_args;

/* weight, bias: NULL where no gradient is needed. */
typedef struct ph__normalize_total_args {
    const void *parts;
    void *weight, *bias;
    int64_t n, row_blocks, tiles;
} ph__normalize_total_args;

/* Forward, or the gradient of x. Every call here: false, the tape has failed. */
bool ph__norm_launch(ph__op *op, ph__normalize_args *args, ph_dtype dtype, ph_dtype out, bool grad);

/* Gradients of weight and bias: how rows are divided (from rows and n; and into tiles, from whether
 * dx is set); the parts, with dx where it is set; their sums. */
void ph__norm_lay_parts(ph__normalize_parts_args *args, ph_dtype dtype);
bool ph__norm_launch_parts(ph__op *op, const ph__normalize_parts_args *args, ph_dtype dtype,
                           ph_dtype out);
bool ph__norm_launch_total(ph__op *op, ph__normalize_total_args *args, ph_dtype dtype);
/* Whether the launch of the parts can make dx as well, which is faster. */
bool ph__norm_parts_make_dx(const ph__normalize_parts_args *args, const void *dx, ph_dtype dtype);
#endif
