/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce.c: how a reduction is laid out: which kernel, which part of the work
 * each block does, in one launch or two. */
#include "tensor/kernels/reduce.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/op.h"

enum {
    BLOCKS = 1024,      /* so many are wanted, where there is enough to do */
    ROW_SEGMENT = 4096, /* reduced elements of a block, at least, where several share an output */
    COLUMN_SEGMENT = 8, /* the same for columns, times how many threads go along one */
    /* up to so many, blocks are narrow, not several for one output: no second launch */
    SHORT_COLUMN = 511,
    NARROW = 8 /* threads side by side of such blocks, at least */
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* The larger strides first: what lies side by side runs fastest. */
static void order_by_stride(int64_t *dims, int64_t *strides, size_t rank)
{
    for (size_t i = 1; i < rank; i++) {
        for (size_t k = i; k > 0 && strides[k - 1] < strides[k]; k--) {
            int64_t dim = dims[k], stride = strides[k];
            dims[k] = dims[k - 1];
            strides[k] = strides[k - 1];
            dims[k - 1] = dim;
            strides[k - 1] = stride;
        }
    }
}

static void set_dims(ph__reduce_args *args, const ph_tensor *x, uint32_t gone)
{
    args->outputs = args->length = 1;
    for (size_t d = 0; d < x->shape.rank; d++) {
        if (gone >> d & 1) {
            args->gone_dim[args->gone_rank] = x->shape.dim[d];
            args->gone_stride[args->gone_rank++] = x->stride[d];
            args->length *= x->shape.dim[d];
        } else {
            args->kept_dim[args->kept_rank] = x->shape.dim[d];
            args->kept_stride[args->kept_rank++] = x->stride[d];
            args->outputs *= x->shape.dim[d];
        }
    }
    order_by_stride(args->gone_dim, args->gone_stride, args->gone_rank);
    args->kept_rank =
        (uint32_t)ph__shape_coalesce(args->kept_dim, &args->kept_stride, 1, args->kept_rank);
    args->gone_rank =
        (uint32_t)ph__shape_coalesce(args->gone_dim, &args->gone_stride, 1, args->gone_rank);
}

/* Whether threads side by side should take outputs side by side. */
static bool reduces_columns(const ph__reduce_args *args)
{
    const uint32_t kept = args->kept_rank - 1, gone = args->gone_rank - 1;
    bool beside = args->kept_stride[kept] == 1 && args->kept_dim[kept] > 1;
    return beside && (args->gone_stride[gone] != 1 || args->gone_dim[gone] == 1);
}

static bool is_steady(const ph__reduce_args *args)
{
    const uint32_t last = args->gone_rank - 1;
    bool steady = args->gone_stride[last] == 1 && (last == 0 || args->gone_dim[last] % 8 == 0);
    for (uint32_t d = 0; d < last; d++)
        steady = steady && args->gone_stride[d] % 8 == 0;
    return steady;
}

/* Whether columns next to each other can be read at once, so many as a thread takes, and there are
 * enough for all threads. */
static bool can_pack_columns(const ph__reduce_args *args)
{
    const uint32_t last = args->kept_rank - 1;
    bool packs = args->gone_rank == 1 && args->gone_stride[0] % PH__REDUCE_COLUMNS == 0 &&
                 args->kept_dim[last] % PH__REDUCE_COLUMNS == 0 &&
                 args->kept_dim[last] >= (int64_t)args->width * PH__REDUCE_COLUMNS;
    for (uint32_t d = 0; d < last; d++)
        packs = packs && args->kept_stride[d] % PH__REDUCE_COLUMNS == 0;
    return packs;
}

static uint32_t rows_of_block(int64_t length)
{
    return length >= 1024 ? 1 : length >= 32 ? 8 : 256;
}

/* Blocks that share an output: as many as are wanted and have enough to do; segments are
 * multiples of unit. */
static void split_reduced(ph__reduce_args *args, int64_t blocks, int64_t least, int64_t unit)
{
    int64_t splits = ceil_div(BLOCKS, blocks), most = args->length / least;
    splits = splits < most ? splits : most;
    args->segment =
        splits > 1 ? ceil_div(ceil_div(args->length, splits), unit) * unit : args->length;
    args->splits = args->length > 0 ? (uint32_t)ceil_div(args->length, args->segment) : 1;
}

/* Gives the number of blocks. */
static int64_t lay_rows(ph__reduce_args *args)
{
    args->width = rows_of_block(args->length);
    args->steady = is_steady(args);
    int64_t blocks = ceil_div(args->outputs, args->width);
    split_reduced(args, blocks, args->width == 1 ? ROW_SEGMENT : INT64_MAX, 1024);
    return blocks * args->splits;
}

/* Of short columns: no more threads go along one than have work; one of four elements is one
 * thread's. The order of sums depends on the length alone. */
static uint32_t width_of_short_columns(int64_t length)
{
    uint32_t width = NARROW;
    while (width < PH__REDUCE_THREADS &&
           PH__REDUCE_THREADS / (2 * width) * PH__REDUCE_AHEAD >= length)
        width *= 2;
    return width;
}

static int64_t lay_columns(ph__reduce_args *args)
{
    const int64_t columns = args->kept_dim[args->kept_rank - 1];
    args->width = 1;
    while (args->width < 32 && args->width < columns)
        args->width *= 2;
    if (args->width == 32 && args->length <= SHORT_COLUMN)
        args->width = width_of_short_columns(args->length);
    const int64_t threads = PH__REDUCE_THREADS / args->width;
    int64_t blocks = args->outputs / columns * ceil_div(columns, args->width * PH__REDUCE_COLUMNS);
    split_reduced(args, blocks, COLUMN_SEGMENT * threads, threads);
    return blocks * args->splits;
}

static ph__kernel_def *columns_def(const ph__reduce *reduce, const ph__reduce_args *args,
                                   ph_dtype dtype)
{
    ph__kernel_def *packed = reduce->packed[dtype];
    return packed && can_pack_columns(args) ? packed : reduce->columns[dtype];
}

bool ph__reduce_launch(ph__op *op, const ph__reduce *reduce, ph_tensor *out, const ph_tensor *x,
                       uint32_t gone, double a, double b)
{
    ph__reduce_args args = {.out = out->data, .x = x->data, .a = a, .b = b};
    if (out->count == 0)
        return true;
    set_dims(&args, x, gone);
    const bool columns = args.length > 0 && reduces_columns(&args);
    const int64_t blocks = columns ? lay_columns(&args) : lay_rows(&args);
    ph__kernel_def *def = columns ? columns_def(reduce, &args, x->dtype) : reduce->rows[x->dtype];
    if (args.splits == 1)
        return ph__op_launch(op, def, (uint64_t)blocks, PH__REDUCE_THREADS, 0, &args);

    ph_tensor *parts =
        ph__op_scratch(op, (size_t)args.outputs * args.splits * reduce->accumulator[x->dtype]);
    if (!parts)
        return false;
    args.out = parts->data;
    if (!ph__op_launch(op, def, (uint64_t)blocks, PH__REDUCE_THREADS, 0, &args))
        return false;
    ph__reduce_args last = {.out = out->data,
                            .x = parts->data,
                            .a = a,
                            .b = b,
                            .outputs = args.outputs,
                            .length = args.splits,
                            .segment = args.splits,
                            .kept_dim = {args.outputs},
                            .kept_stride = {args.splits},
                            .gone_dim = {args.splits},
                            .gone_stride = {1},
                            .kept_rank = 1,
                            .gone_rank = 1,
                            .splits = 1,
                            .width = rows_of_block(args.splits)};
    return ph__op_launch(op, reduce->join[x->dtype], (uint64_t)ceil_div(last.outputs, last.width),
                         PH__REDUCE_THREADS, 0, &last);
}
