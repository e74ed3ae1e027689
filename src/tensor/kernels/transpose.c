/* SPDX-License-Identifier: MIT */
/* tensor/kernels/transpose.c: matrices transposed on a GPU. */
#include "tensor/kernels/transpose.h"
#include "tensor/backend/texts.h"
#include "tensor/kernels/elementwise_move.h"

enum {
    TILE = 64,
    THREADS = 256
};

/* As the parameters of cuda/transpose.cu. */
typedef struct transpose_args {
    void *out;
    const void *in;
    int64_t rows, columns, step;
    uint32_t across; /* tiles of a row */
} transpose_args;

static void transpose_tiles(const ph_block_range *range, const void *args, size_t size)
{
    const transpose_args *a = args;
    for (uint64_t block = range->begin; block < range->end; block++) {
        int64_t row = (int64_t)(block / a->across) * TILE,
                column = (int64_t)(block % a->across) * TILE,
                rows = a->rows - row < TILE ? a->rows - row : TILE,
                end = a->columns - column < TILE ? a->columns : column + TILE;
        const char *from = (const char *)a->in + (size_t)(row * a->step) * size;
        for (int64_t c = column; c < end; c++)
            ph__move_run((char *)a->out + (size_t)(c * a->rows + row) * size, 1,
                         from + (size_t)c * size, a->step, size, rows);
    }
}

static const ph_param params[] = {PH_PARAM(transpose_args, out, PH_PARAM_ADDRESS),
                                  PH_PARAM(transpose_args, in, PH_PARAM_ADDRESS)};
#define DEF(bytes, type)                                                                           \
    static void transpose_##bytes(const ph_block_range *range, const void *args)                   \
    {                                                                                              \
        transpose_tiles(range, args, bytes);                                                       \
    }                                                                                              \
    static ph__kernel_def def_##bytes = {                                                          \
        .name = "ph_transpose_" #bytes,                                                            \
        .cuda =                                                                                    \
            (const char *const[]){"#define KERNEL ph_transpose_" #bytes "\n#define T " #type "\n", \
                                  ph__text_transpose, NULL},                                       \
        .host = transpose_##bytes,                                                                 \
        .args_size = sizeof(transpose_args),                                                       \
        .params = params,                                                                          \
        .param_count = sizeof params / sizeof *params}
DEF(2, u16);
DEF(4, u32);
DEF(8, u64);
ph__kernel_def *const ph__transpose_kernels[] = {&def_2, &def_4, &def_8, NULL};

bool ph__transpose(ph__op *op, const ph__transposition *t, size_t size)
{
    int64_t across = (t->columns + TILE - 1) / TILE, down = (t->rows + TILE - 1) / TILE, blocks;
    if (__builtin_mul_overflow(across, down, &blocks) || blocks > INT32_MAX) {
        ph__op_fail(op, PH_ERROR_SIZE, "a transposed matrix has too many elements");
        return false;
    }
    const transpose_args args = {.out = t->out,
                                 .in = t->in,
                                 .rows = t->rows,
                                 .columns = t->columns,
                                 .step = t->step,
                                 .across = (uint32_t)across};
    return ph__op_launch(op,
                         size == 2   ? &def_2
                         : size == 4 ? &def_4
                                     : &def_8,
                         (uint64_t)blocks, THREADS, 0, &args);
}
