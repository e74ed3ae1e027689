/* SPDX-License-Identifier: MIT */
/* tensor/products/products_sum.c: the sum of a split product's parts, with bias and what was there
 * before. */
#include "tensor/products/products_sum.h"
#include "base/half.h"
#include "tensor/backend/kernels.h"
#include "tensor/backend/texts.h"
#include "tensor/products/products.h"
#include "tensor/tape/op.h"

/* As the parameters of cuda/products.cu. */
typedef struct sum_args {
    const void *part, *bias;
    void *c;
    int64_t rows_each, n, ldc, stride_c; /* rows_each: of one matrix of the batch */
    uint32_t rows, pieces, parts, accumulate;
} sum_args;
enum {
    THREADS = 256,
    COLUMNS = 1024 /* of a block; a row has `pieces` of them */
};

#define SAME(x) (x)
#define KERNEL(name, T, C, get, put)                                                               \
    static void name(const ph_block_range *range, const void *args)                                \
    {                                                                                              \
        const sum_args *p = args;                                                                  \
        for (uint64_t block = range->begin; block < range->end; block++) {                         \
            int64_t row = (int64_t)(block / p->pieces),                                            \
                    first = (int64_t)(block % p->pieces) * COLUMNS;                                \
            int64_t end = p->n - first < COLUMNS ? p->n : first + COLUMNS,                         \
                    matrix = row / p->rows_each;                                                   \
            T *out = (T *)p->c + matrix * p->stride_c + (row - matrix * p->rows_each) * p->ldc;    \
            for (int64_t j = first; j < end; j++) {                                                \
                const C *from = p->parts ? (const C *)p->part + row * p->n + j : NULL;             \
                C sum = p->bias ? get(((const T *)p->bias)[j]) : (C)0;                             \
                for (uint32_t i = 0; i < p->parts; i++)                                            \
                    sum += from[(int64_t)i * p->rows * p->n];                                      \
                if (p->accumulate)                                                                 \
                    sum += get(out[j]);                                                            \
                out[j] = put(sum);                                                                 \
            }                                                                                      \
        }                                                                                          \
    }
KERNEL(sum_f32, float, float, SAME, SAME)
KERNEL(sum_f64, double, double, SAME, SAME)
KERNEL(sum_f16, uint16_t, float, ph__f16_get, ph__f16_put)
KERNEL(sum_bf16, uint16_t, float, ph__bf16_get, ph__bf16_put)

static const ph_param params[] = {PH_PARAM(sum_args, part, PH_PARAM_ADDRESS),
                                  PH_PARAM(sum_args, bias, PH_PARAM_ADDRESS),
                                  PH_PARAM(sum_args, c, PH_PARAM_ADDRESS)};
#define DEF(type)                                                                                  \
    static ph__kernel_def def_##type = {                                                           \
        .name = "ph_product_sum_" #type,                                                           \
        .cuda = (const char *const[]){"#define KERNEL ph_product_sum_" #type "\n#define T " #type  \
                                      "\n",                                                        \
                                      ph__text_products, NULL},                                    \
        .host = sum_##type,                                                                        \
        .args_size = sizeof(sum_args),                                                             \
        .params = params,                                                                          \
        .param_count = sizeof params / sizeof *params}
DEF(f32);
DEF(f64);
DEF(f16);
DEF(bf16);
ph__kernel_def *const ph__product_sum_kernels[] = {&def_f32, &def_f64, &def_f16, &def_bf16, NULL};

bool ph__product_sum(ph__op *op, const ph__product *product, const void *part, uint32_t parts)
{
    int64_t rows, blocks, pieces = (product->n + COLUMNS - 1) / COLUMNS;
    if (__builtin_mul_overflow(product->m, product->batch, &rows) || rows > UINT32_MAX ||
        __builtin_mul_overflow(rows, pieces, &blocks) || blocks > INT32_MAX) {
        ph__op_fail(op, PH_ERROR_SIZE, "the result has too many rows");
        return false;
    }
    const sum_args args = {.part = part,
                           .bias = product->bias,
                           .c = product->c,
                           .rows_each = product->m,
                           .n = product->n,
                           .ldc = product->ldc,
                           .stride_c = product->stride_c,
                           .rows = (uint32_t)rows,
                           .pieces = (uint32_t)pieces,
                           .parts = parts,
                           .accumulate = product->accumulate};
    ph__kernel_def *def = product->dtype == PH_DTYPE_F64    ? &def_f64
                          : product->dtype == PH_DTYPE_F16  ? &def_f16
                          : product->dtype == PH_DTYPE_BF16 ? &def_bf16
                                                            : &def_f32;
    return ph__op_launch(op, def, (uint64_t)blocks, THREADS, 0, &args);
}
