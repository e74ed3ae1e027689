/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce.h: reductions over any axes (reduce.def), and where the largest element is:
 * their kernels, and how they are launched.
 *
 * Work is divided by shape alone: a block's outputs and its segment of what is reduced, and the
 * order within, are the same whatever the number of threads, so that results are the same to the
 * bit. */
#ifndef PH_TENSOR_KERNELS_REDUCE_H
#define PH_TENSOR_KERNELS_REDUCE_H
#include "tensor/kernels/elementwise.h"

/* Arguments of the kernels. The dimensions of x are sorted into kept and reduced ones; each group
 * is merged where it can be. Index o of an output, or r of a reduced element, gives one index for
 * each dimension of its group, the last one running fastest.
 * - out: outputs; with splits > 1 accumulators for the kernel that joins them, [outputs][splits] on
 *   a GPU and [splits][outputs] on the host.
 * - length: elements of each output. segment: how many of them a block takes.
 * - width: in rows, outputs of a block: 1, 8 or 256. In columns, threads side by side: 1, 2, 4 ..
 *   32, of short ones up to 256.
 * - steady (rows): the last reduced dimension has stride 1, and its size, unless it is the only
 *   one, is a multiple of 8, as the strides of the others are, so that elements of one read stay
 *   together. */
typedef struct ph__reduce_args {
    void *out;
    const void *x;
    double a, b;
    int64_t outputs, length, segment;
    int64_t kept_dim[PH_MAX_RANK], kept_stride[PH_MAX_RANK];
    int64_t gone_dim[PH_MAX_RANK], gone_stride[PH_MAX_RANK];
    uint32_t kept_rank, gone_rank, splits, width, steady, reserved;
} ph__reduce_args;

enum {
    PH__REDUCE_THREADS = 256,
    PH__REDUCE_COLUMNS = 4, /* outputs of a thread, in the form for columns */
    PH__REDUCE_AHEAD = 4    /* elements that it reads at once of each */
};

/* NULL where the dtype is not taken.
 * - rows: any layout, best where what is reduced lies side by side.
 * - columns: what stays lies side by side: kept_stride of the last dimension is 1.
 * - packed: columns of one reduced dimension, where a multiple of PH__REDUCE_COLUMNS lie side by
 *   side, as many as a block takes or more, and all strides are such multiples: a thread reads its
 *   own at once. Same work of a block, and same order of sums.
 * - join: rows, over accumulators. */
typedef struct ph__reduce {
    const char *name;
    size_t accumulator[PH__ELEMENTWISE_DTYPES]; /* bytes */
    ph__kernel_def *rows[PH__ELEMENTWISE_DTYPES], *columns[PH__ELEMENTWISE_DTYPES],
        *packed[PH__ELEMENTWISE_DTYPES + 1], *join[PH__ELEMENTWISE_DTYPES];
} ph__reduce;

/* out: contiguous, x's shape without the axes of gone (bit i: axis i). False: the tape has
 * failed. */
bool ph__reduce_launch(ph__op *op, const ph__reduce *reduce, ph_tensor *out, const ph_tensor *x,
                       uint32_t gone, double a, double b);

#endif
