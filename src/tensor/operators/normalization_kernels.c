/* SPDX-License-Identifier: MIT */
/* tensor/operators/normalization_kernels.c: the kernels of layer_norm and rms_norm, and which of
 * them takes what. */
#include "tensor/operators/normalization_kernels.h"
#include "tensor/backend/texts.h"
#include "tensor/kernels/rows.h"

static const ph_param norm_params[] = {PH_PARAM(ph__normalize_args, x, PH_PARAM_ADDRESS),
                                       PH_PARAM(ph__normalize_args, w, PH_PARAM_ADDRESS),
                                       PH_PARAM(ph__normalize_args, b, PH_PARAM_ADDRESS),
                                       PH_PARAM(ph__normalize_args, y, PH_PARAM_ADDRESS),
                                       PH_PARAM(ph__normalize_args, means, PH_PARAM_ADDRESS),
                                       PH_PARAM(ph__normalize_args, scales, PH_PARAM_ADDRESS),
                                       PH_PARAM(ph__normalize_args, rows, PH_PARAM_VALUE),
                                       PH_PARAM(ph__normalize_args, n, PH_PARAM_VALUE),
                                       PH_PARAM(ph__normalize_args, eps, PH_PARAM_VALUE),
                                       PH_PARAM(ph__normalize_args, centered, PH_PARAM_VALUE),
                                       PH_PARAM(ph__normalize_args, rows_a_block, PH_PARAM_VALUE),
                                       PH_PARAM(ph__normalize_args, plus, PH_PARAM_ADDRESS)};

static const ph_param parts_params[] = {
    PH_PARAM(ph__normalize_parts_args, x, PH_PARAM_ADDRESS),
    PH_PARAM(ph__normalize_parts_args, w, PH_PARAM_ADDRESS),
    PH_PARAM(ph__normalize_parts_args, g, PH_PARAM_ADDRESS),
    PH_PARAM(ph__normalize_parts_args, dx, PH_PARAM_ADDRESS),
    PH_PARAM(ph__normalize_parts_args, means, PH_PARAM_ADDRESS),
    PH_PARAM(ph__normalize_parts_args, scales, PH_PARAM_ADDRESS),
    PH_PARAM(ph__normalize_parts_args, parts, PH_PARAM_ADDRESS),
    PH_PARAM(ph__normalize_parts_args, rows, PH_PARAM_VALUE),
    PH_PARAM(ph__normalize_parts_args, n, PH_PARAM_VALUE),
    PH_PARAM(ph__normalize_parts_args, rows_a_block, PH_PARAM_VALUE),
    PH_PARAM(ph__normalize_parts_args, row_blocks, PH_PARAM_VALUE),
    PH_PARAM(ph__normalize_parts_args, tiles, PH_PARAM_VALUE),
    PH_PARAM(ph__normalize_parts_args, plus, PH_PARAM_ADDRESS)};

static const ph_param total_params[] = {
    PH_PARAM(ph__normalize_total_args, parts, PH_PARAM_ADDRESS),
    PH_PARAM(ph__normalize_total_args, weight, PH_PARAM_ADDRESS),
    PH_PARAM(ph__normalize_total_args, bias, PH_PARAM_ADDRESS),
    PH_PARAM(ph__normalize_total_args, n, PH_PARAM_VALUE),
    PH_PARAM(ph__normalize_total_args, row_blocks, PH_PARAM_VALUE),
    PH_PARAM(ph__normalize_total_args, tiles, PH_PARAM_VALUE)};

enum {
    SMALL_ROWS = 4,     /* of a block whose warps have one each */
    BOTH_THREADS = 128, /* of one that makes dx and parts, and its rows are multiples of */
    BOTH_ROWS = 4,
    BOTH_BLOCKS = 384,  /* about so many, where there are rows enough */
    TILE = 256,         /* columns of a block of parts, at most */
    PARTS_BLOCKS = 512, /* about so many, where there are rows enough; a multiple of 8 rows each */
    TOTAL_COLUMNS = 32
};
static int64_t tile_columns(ph_dtype dtype)
{
    return 32 * 16 / (int64_t)ph_dtype_size(dtype);
}

#define REAL     float
#define OF(name) name##_float
#include "tensor/operators/normalization_real.h"

#include "tensor/operators/normalization_parts_real.h"
#undef REAL
#undef OF
#define REAL     double
#define OF(name) name##_double
#include "tensor/operators/normalization_real.h"

#include "tensor/operators/normalization_parts_real.h"
#undef REAL
#undef OF

#define KERNELS(kernel, form, flags)                                                               \
    PH__ROWS_KERNELS(kernel, form, ph__text_norm, flags, ph__normalize_args, norm_params)
KERNELS(norm_small, norm_host, "#define SMALL\n")
KERNELS(norm_row, norm_host, "#define ROW\n")
KERNELS(norm_long, norm_host, "#define LONG\n")
KERNELS(norm_small_grad, norm_grad_host, "#define SMALL\n#define GRAD\n")
KERNELS(norm_row_grad, norm_grad_host, "#define ROW\n#define GRAD\n")
KERNELS(norm_long_grad, norm_grad_host, "#define LONG\n#define GRAD\n")
PH__ROWS_KERNELS(norm_parts, parts_host, ph__text_norm, "#define PARTS\n", ph__normalize_parts_args,
                 parts_params)
PH__ROWS_KERNELS(norm_both, parts_host, ph__text_norm,
                 "#define PARTS\n#define SMALL\n#define GRAD\n", ph__normalize_parts_args,
                 parts_params)
PH__ROWS_KERNELS(norm_parts_total, parts_total_host, ph__text_norm, "#define PARTS_TOTAL\n",
                 ph__normalize_total_args, total_params)

/* The same of f32, with a result (and so a gradient of it) of a half type: [0] of f16, [1] of
 * bf16. */
#define LOW_HOST(kernel, work, half, number)                                                       \
    static void kernel##_##half(const ph_block_range *range, const void *args)                     \
    {                                                                                              \
        work(range, args, PH_DTYPE_F32, number);                                                   \
    }
#define LOW_DEF(kernel, half, flags, args, parameters)                                             \
    {                                                                                              \
        .name = "ph_" #kernel "_" #half,                                                           \
        .cuda = (const char *const[]){"#define T f32\n#define OUT " #half                          \
                                      "\n#define KERNEL ph_" #kernel "_" #half "\n" flags,         \
                                      ph__text_rows, ph__text_norm, NULL},                         \
        .host = kernel##_##half, .args_size = sizeof(args), .params = parameters,                  \
        .param_count = sizeof parameters / sizeof parameters[0]                                    \
    }
#define LOW_KERNELS(kernel, work, flags, args, parameters)                                         \
    LOW_HOST(kernel, work, f16, PH_DTYPE_F16)                                                      \
    LOW_HOST(kernel, work, bf16, PH_DTYPE_BF16)                                                    \
    static ph__kernel_def kernel[2] = {LOW_DEF(kernel, f16, flags, args, parameters),              \
                                       LOW_DEF(kernel, bf16, flags, args, parameters)};
#define LOW(kernel, work, flags) LOW_KERNELS(kernel, work, flags, ph__normalize_args, norm_params)
LOW(norm_small_low, norm_blocks_float, "#define SMALL\n")
LOW(norm_row_low, norm_blocks_float, "#define ROW\n")
LOW(norm_long_low, norm_blocks_float, "#define LONG\n")
LOW(norm_small_grad_low, norm_grad_blocks_float, "#define SMALL\n#define GRAD\n")
LOW(norm_row_grad_low, norm_grad_blocks_float, "#define ROW\n#define GRAD\n")
LOW(norm_long_grad_low, norm_grad_blocks_float, "#define LONG\n#define GRAD\n")
LOW_KERNELS(norm_parts_low, parts_blocks_float, "#define PARTS\n", ph__normalize_parts_args,
            parts_params)
LOW_KERNELS(norm_both_low, parts_blocks_float, "#define PARTS\n#define SMALL\n#define GRAD\n",
            ph__normalize_parts_args, parts_params)

#define LOW_LIST(kernel) &kernel[0], &kernel[1]
PH__KERNEL_FAMILY(norm) = {
    PH__ROWS_LIST(norm_small),      PH__ROWS_LIST(norm_row),      PH__ROWS_LIST(norm_long),
    PH__ROWS_LIST(norm_small_grad), PH__ROWS_LIST(norm_row_grad), PH__ROWS_LIST(norm_long_grad),
    PH__ROWS_LIST(norm_parts),      PH__ROWS_LIST(norm_both),     PH__ROWS_LIST(norm_parts_total),
    LOW_LIST(norm_small_low),       LOW_LIST(norm_row_low),       LOW_LIST(norm_long_low),
    LOW_LIST(norm_small_grad_low),  LOW_LIST(norm_row_grad_low),  LOW_LIST(norm_long_grad_low),
    LOW_LIST(norm_parts_low),       LOW_LIST(norm_both_low),      NULL};

/* Of operands of dtype; out: of the result. */
#define KERNEL_OF(kernel, dtype, out)                                                              \
    ((out) == (dtype) ? ph__rows_kernel(kernel, dtype) : &kernel##_low[(out)-PH_DTYPE_F16])

/* The longest rows that a warp, and a block, keep in registers: 8 (half types: 4), and 4, times
 * 16 bytes of each thread. */
enum {
    WARP_BYTES = 32 * 8 * 16,
    BLOCK_BYTES = 512 * 4 * 16,
    /* too few to fill a GPU with a warp each: a block, unless a row has as little as FEW_BYTES */
    FEW_ROWS = 1024,
    FEW_BYTES = 1024
};

/* Whether these may be read 16 bytes at a time, all along. */
static bool are_aligned(const void *a, const void *b, const void *c, const void *d, int64_t bytes)
{
    return ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d | (uintptr_t)bytes) % 16 == 0;
}

static bool fits_warp(int64_t bytes, ph_dtype dtype)
{
    return bytes <= (ph_dtype_size(dtype) == 2 ? WARP_BYTES / 2 : WARP_BYTES);
}

bool ph__norm_launch(ph__op *op, ph__normalize_args *args, ph_dtype dtype, ph_dtype out, bool grad)
{
    int64_t bytes = args->n * (int64_t)ph_dtype_size(dtype),
            threads = ph__ceil_div(bytes, 32 * 4 * 16) * 32;
    bool vectors = are_aligned(args->x, args->w, args->b, args->y, bytes) &&
                   are_aligned(args->plus, NULL, NULL, NULL, 0);
    ph__kernel_def *def = grad ? KERNEL_OF(norm_long_grad, dtype, out)
                               : KERNEL_OF(norm_long, dtype, out),
                   *row = grad ? KERNEL_OF(norm_row_grad, dtype, out)
                               : KERNEL_OF(norm_row, dtype, out);
    args->rows_a_block = 1;
    if (args->n == 0)
        return true;
    if (vectors && args->rows <= FEW_ROWS && bytes > FEW_BYTES && bytes <= BLOCK_BYTES) {
        threads = ph__ceil_div(bytes, 32 * 16) * 32;
        def = row;
    } else if (vectors && fits_warp(bytes, dtype)) {
        args->rows_a_block = SMALL_ROWS;
        threads = 32 * SMALL_ROWS;
        def = grad ? KERNEL_OF(norm_small_grad, dtype, out) : KERNEL_OF(norm_small, dtype, out);
    } else if (vectors && bytes <= BLOCK_BYTES) {
        def = row;
    }
    return ph__op_launch(op, def, (uint64_t)ph__ceil_div(args->rows, args->rows_a_block),
                         (uint32_t)(threads < 512 ? threads : 512), 0, args);
}

/* ---- gradients of weight and bias ---- The order of sums depends on rows, n and dtype alone: not
 * on alignment, nor on whether dx is wanted. */
static bool has_short_rows(const ph__normalize_parts_args *args, ph_dtype dtype)
{
    return fits_warp(args->n * (int64_t)ph_dtype_size(dtype), dtype);
}

void ph__norm_lay_parts(ph__normalize_parts_args *args, ph_dtype dtype)
{
    bool short_rows = has_short_rows(args, dtype);
    int64_t tiles = ph__ceil_div(args->n, tile_columns(dtype)), least = short_rows ? BOTH_ROWS : 8;
    int64_t most = short_rows ? BOTH_BLOCKS : PARTS_BLOCKS / (tiles > 0 && tiles < 64 ? tiles : 64);
    args->tiles = args->dx ? 1 : tiles;
    args->rows_a_block = ph__ceil_div(ph__ceil_div(args->rows, most), least) * least;
    args->row_blocks = args->rows_a_block > 0 ? ph__ceil_div(args->rows, args->rows_a_block) : 0;
}

bool ph__norm_parts_make_dx(const ph__normalize_parts_args *args, const void *dx, ph_dtype dtype)
{
    int64_t bytes = args->n * (int64_t)ph_dtype_size(dtype);
    return args->rows > 0 && args->n > 0 && has_short_rows(args, dtype) &&
           are_aligned(args->x, args->w, args->g, dx, bytes) &&
           are_aligned(args->plus, NULL, NULL, NULL, 0);
}

bool ph__norm_launch_parts(ph__op *op, const ph__normalize_parts_args *args, ph_dtype dtype,
                           ph_dtype out)
{
    uint64_t blocks = (uint64_t)(args->row_blocks * args->tiles);
    return args->dx
               ? ph__op_launch(op, KERNEL_OF(norm_both, dtype, out), blocks, BOTH_THREADS, 0, args)
               : ph__op_launch(op, KERNEL_OF(norm_parts, dtype, out), blocks,
                               has_short_rows(args, dtype) ? BOTH_THREADS : 256, 0, args);
}

bool ph__norm_launch_total(ph__op *op, ph__normalize_total_args *args, ph_dtype dtype)
{
    args->tiles = ph__ceil_div(args->n, TOTAL_COLUMNS);
    return ph__op_launch(op, ph__rows_kernel(norm_parts_total, dtype), (uint64_t)(2 * args->tiles),
                         1024, 0, args);
}
