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
 * - out: outputs; with splits > 1, [outputs][splits] accumulators for the kernel that joins them.
 * - length: elements of each output. segment: how many of them a block takes.
 * - width: in rows, outputs of a block: 1, 8 or 256. In columns, threads side by side: 1, 2, 4 ..
 *   32.
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
    PH__REDUCE_COLUMNS = 4 /* outputs of a thread, in the form for columns */
};

/* rows: any layout, best where what is reduced lies side by side. columns: what stays lies side
 * by side: kept_stride of the last dimension is 1. join: rows, over accumulators. NULL where the
 * dtype is not taken. */
typedef struct ph__reduce {
    const char *name;
    size_t accumulator[PH__ELEMENTWISE_DTYPES]; /* bytes */
    ph__kernel_def *rows[PH__ELEMENTWISE_DTYPES], *columns[PH__ELEMENTWISE_DTYPES],
        *join[PH__ELEMENTWISE_DTYPES];
} ph__reduce;

#define PH__REDUCE(name, ...) extern const ph__reduce ph__reduce_##name;
#include "tensor/kernels/reduce.def"
#undef PH__REDUCE
extern const ph__reduce ph__reduce_argmax;
extern ph__kernel_def *const ph__reduce_kernels[]; /* all of them, NULL-terminated */

/* out: contiguous, x's shape without the axes of gone (bit i: axis i). False: the tape has
 * failed. */
bool ph__reduce_launch(ph__op *op, const ph__reduce *reduce, ph_tensor *out, const ph_tensor *x,
                       uint32_t gone, double a, double b);

/* ---- host forms ---- reduce_host.c. Cores work on arrays of the dtype that is computed in; a:
 * the call's number. row: n elements into one accumulator; index: of the first, among the
 * reduced ones. columns: element i into accumulator i; columns4 (NULL: none): of four rows, one
 * after the other, with what lies between two of them in place of index. end: the result, in the
 * type that is computed in, or an integer of its own. */
typedef void (*ph__reduce_core)(void *accumulators, const void *x, int64_t n, int64_t index,
                                double a);
typedef struct ph__reduce_cores {
    size_t accumulator;
    ph__reduce_core start; /* n accumulators */
    ph__reduce_core row, columns, columns4;
    ph__reduce_core join; /* n accumulators into one */
    void (*end)(void *out, const void *accumulator, double a, double b);
} ph__reduce_cores;
enum {
#define PH__REDUCE(name, ...) PH__REDUCE_##name,
#include "tensor/kernels/reduce.def"
#undef PH__REDUCE
    PH__REDUCE_argmax,
    PH__REDUCTIONS
};
extern const ph__reduce_cores *const ph__reduce_core_table[PH__REDUCTIONS][PH__CORE_TYPES];

typedef struct ph__reduce_info {
    uint8_t dtype;      /* of x: a ph_dtype */
    uint8_t result;     /* of out: a ph_dtype */
    uint8_t core, type; /* place in the table */
} ph__reduce_info;
void ph__reduce_host_rows(const ph_block_range *range, const void *args,
                          const ph__reduce_info *info);
void ph__reduce_host_columns(const ph_block_range *range, const void *args,
                             const ph__reduce_info *info);
void ph__reduce_host_join(const ph_block_range *range, const void *args,
                          const ph__reduce_info *info);
#endif
