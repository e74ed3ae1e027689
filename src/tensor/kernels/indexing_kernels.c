/* SPDX-License-Identifier: MIT */
/* tensor/kernels/indexing_kernels.c: kernels that read and write where an index says, and their
 * host forms. */
#include "tensor/kernels/indexing_kernels.h"
#include "tensor/backend/kernels.h"

ph__places ph__places_of(const ph_tensor *x, size_t axis, const ph_shape *index)
{
    ph__places at = {
        .rank = (int64_t)index->rank, .n = x->shape.dim[axis], .step = x->stride[axis]};
    for (size_t i = 0; i < index->rank; i++) {
        at.dim[i] = index->dim[i];
        at.stride[i] = i == axis ? 0 : x->stride[i];
    }
    return at;
}

int64_t ph__place_of(const ph__places *at, int64_t i)
{
    int64_t place = 0;
    for (int64_t d = at->rank - 1; d >= 0; d--) {
        place += i % at->dim[d] * at->stride[d];
        i /= at->dim[d];
    }
    return place;
}

/* -1: out of range. */
static int64_t target_of(const ph__places *at, const void *index, bool wide, int64_t i)
{
    int64_t v = ph__index_at(index, wide, i);
    return v >= 0 && v < at->n ? ph__place_of(at, i) + v * at->step : -1;
}

/* Elements [*begin, end) of total that the blocks of the range have. */
static int64_t items_of_blocks(const ph_block_range *range, int64_t block, int64_t total,
                               int64_t *begin)
{
    int64_t end = (int64_t)range->end * block;
    *begin = (int64_t)range->begin * block;
    return end < total ? end : total;
}

/* ---- take ---- */
static void take_words(const ph_block_range *range, const ph__take_args *a, int64_t word)
{
    int64_t i, end = items_of_blocks(range, PH__TAKE_BLOCK, a->total, &i);
    while (i < end) {
        int64_t line = i / a->inner, r = i % a->inner,
                many = a->inner - r < end - i ? a->inner - r : end - i;
        int64_t v = ph__index_at(a->index, a->wide, line % a->count);
        char *to = (char *)a->out + i * word;
        if (v >= 0 && v < a->n)
            memcpy(to, (const char *)a->x + ((line / a->count * a->n + v) * a->inner + r) * word,
                   (size_t)(many * word));
        else
            for (int64_t k = 0; k < many * word; k++)
                to[k] = (char)(a->bad >> k % 8 * 8);
        i += many;
    }
}

/* ---- by the size of a word ---- */
#define BY_SIZE(bytes, type)                                                                       \
    static void take_##bytes(const ph_block_range *range, const void *args)                        \
    {                                                                                              \
        take_words(range, args, bytes);                                                            \
    }                                                                                              \
    static void gather_##bytes(const ph_block_range *range, const void *args)                      \
    {                                                                                              \
        const ph__gather_args *a = args;                                                           \
        int64_t i, end = items_of_blocks(range, PH__INDEX_BLOCK, a->total, &i);                    \
        for (; i < end; i++) {                                                                     \
            int64_t from = target_of(&a->at, a->index, a->wide, i);                                \
            ((type *)a->out)[i] = from >= 0 ? ((const type *)a->x)[from] : (type)a->bad;           \
        }                                                                                          \
    }                                                                                              \
    static void write_##bytes(const ph_block_range *range, const void *args)                       \
    {                                                                                              \
        const ph__write_args *a = args;                                                            \
        int64_t i, end = items_of_blocks(range, PH__INDEX_BLOCK, a->total, &i);                    \
        for (; i < end; i++) {                                                                     \
            int64_t to = target_of(&a->at, a->index, a->wide, i);                                  \
            if (to >= 0 && !a->src)                                                                \
                __atomic_store_n((type *)a->out + to, (type)0, __ATOMIC_RELAXED);                  \
            else if (to >= 0 && ((const uint32_t *)a->winners)[to] == (uint32_t)i + 1)             \
                ((type *)a->out)[to] = ((const type *)a->src)[i];                                  \
        }                                                                                          \
    }                                                                                              \
    static void winners_grad_##bytes(const ph_block_range *range, const void *args)                \
    {                                                                                              \
        const ph__winners_grad_args *a = args;                                                     \
        int64_t i, end = items_of_blocks(range, PH__INDEX_BLOCK, a->total, &i);                    \
        for (; i < end; i++) {                                                                     \
            int64_t from = target_of(&a->at, a->index, a->wide, i);                                \
            bool won = from >= 0 && ((const uint32_t *)a->winners)[from] == (uint32_t)i + 1;       \
            ((type *)a->out)[i] = won ? ((const type *)a->g)[from] : (type)0;                      \
        }                                                                                          \
    }
BY_SIZE(1, uint8_t)
BY_SIZE(2, uint16_t)
BY_SIZE(4, uint32_t)
BY_SIZE(8, uint64_t)
static void take_16(const ph_block_range *range, const void *args)
{
    take_words(range, args, 16);
}

static const ph_param take_params[] = {PH_PARAM(ph__take_args, x, PH_PARAM_ADDRESS),
                                       PH_PARAM(ph__take_args, index, PH_PARAM_ADDRESS),
                                       PH_PARAM(ph__take_args, out, PH_PARAM_ADDRESS),
                                       PH_PARAM(ph__take_args, total, PH_PARAM_VALUE),
                                       PH_PARAM(ph__take_args, n, PH_PARAM_VALUE),
                                       PH_PARAM(ph__take_args, count, PH_PARAM_VALUE),
                                       PH_PARAM(ph__take_args, inner, PH_PARAM_VALUE),
                                       PH_PARAM(ph__take_args, wide, PH_PARAM_VALUE),
                                       PH_PARAM(ph__take_args, bad, PH_PARAM_VALUE)};
static const ph_param gather_params[] = {PH_PARAM(ph__gather_args, x, PH_PARAM_ADDRESS),
                                         PH_PARAM(ph__gather_args, index, PH_PARAM_ADDRESS),
                                         PH_PARAM(ph__gather_args, out, PH_PARAM_ADDRESS),
                                         PH_PARAM(ph__gather_args, at, PH_PARAM_VALUE),
                                         PH_PARAM(ph__gather_args, total, PH_PARAM_VALUE),
                                         PH_PARAM(ph__gather_args, wide, PH_PARAM_VALUE),
                                         PH_PARAM(ph__gather_args, bad, PH_PARAM_VALUE)};
static const ph_param write_params[] = {PH_PARAM(ph__write_args, src, PH_PARAM_ADDRESS),
                                        PH_PARAM(ph__write_args, index, PH_PARAM_ADDRESS),
                                        PH_PARAM(ph__write_args, winners, PH_PARAM_ADDRESS),
                                        PH_PARAM(ph__write_args, out, PH_PARAM_ADDRESS),
                                        PH_PARAM(ph__write_args, at, PH_PARAM_VALUE),
                                        PH_PARAM(ph__write_args, total, PH_PARAM_VALUE),
                                        PH_PARAM(ph__write_args, wide, PH_PARAM_VALUE)};
static const ph_param winners_grad_params[] = {
    PH_PARAM(ph__winners_grad_args, g, PH_PARAM_ADDRESS),
    PH_PARAM(ph__winners_grad_args, index, PH_PARAM_ADDRESS),
    PH_PARAM(ph__winners_grad_args, winners, PH_PARAM_ADDRESS),
    PH_PARAM(ph__winners_grad_args, out, PH_PARAM_ADDRESS),
    PH_PARAM(ph__winners_grad_args, at, PH_PARAM_VALUE),
    PH_PARAM(ph__winners_grad_args, total, PH_PARAM_VALUE),
    PH_PARAM(ph__winners_grad_args, wide, PH_PARAM_VALUE)};

#define DEF(kernel, bytes, word, flag, parameters)                                                 \
    {                                                                                              \
        .name = "ph_" #kernel "_" #bytes,                                                          \
        .cuda = (const char *const[]){"#define U " #word "\n#define KERNEL ph_" #kernel "_" #bytes \
                                      "\n#define " flag "\n",                                      \
                                      ph__text_indexing, NULL},                                    \
        .host = kernel##_##bytes, .args_size = sizeof(ph__##kernel##_args), .params = parameters,  \
        .param_count = sizeof parameters / sizeof parameters[0]                                    \
    }
#define DEFS(kernel, flag, parameters)                                                             \
    DEF(kernel, 1, u8, flag, parameters), DEF(kernel, 2, u16, flag, parameters),                   \
        DEF(kernel, 4, u32, flag, parameters), DEF(kernel, 8, u64, flag, parameters)
ph__kernel_def ph__take_kernels[5] = {DEFS(take, "TAKE", take_params),
                                      DEF(take, 16, uint4, "TAKE", take_params)};
ph__kernel_def ph__gather_kernels[4] = {DEFS(gather, "GATHER", gather_params)};
ph__kernel_def ph__write_kernels[4] = {DEFS(write, "WRITE", write_params)};
ph__kernel_def ph__winners_grad_kernels[4] = {
    DEFS(winners_grad, "WINNERS_GRAD", winners_grad_params)};

/* ---- claim ---- */
static void claim_host(const ph_block_range *range, const void *args)
{
    const ph__claim_args *a = args;
    int64_t i, end = items_of_blocks(range, PH__INDEX_BLOCK, a->total, &i);
    for (; i < end; i++) {
        int64_t place = target_of(&a->at, a->index, a->wide, i);
        if (place < 0)
            continue;
        uint32_t *winner = (uint32_t *)a->winners + place,
                 now = __atomic_load_n(winner, __ATOMIC_RELAXED);
        while (now < (uint32_t)i + 1 &&
               !__atomic_compare_exchange_n(winner, &now, (uint32_t)i + 1, true, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED))
            continue;
    }
}
static const ph_param claim_params[] = {PH_PARAM(ph__claim_args, index, PH_PARAM_ADDRESS),
                                        PH_PARAM(ph__claim_args, winners, PH_PARAM_ADDRESS),
                                        PH_PARAM(ph__claim_args, at, PH_PARAM_VALUE),
                                        PH_PARAM(ph__claim_args, total, PH_PARAM_VALUE),
                                        PH_PARAM(ph__claim_args, wide, PH_PARAM_VALUE)};
ph__kernel_def ph__claim_kernel = {
    .name = "ph_claim",
    .cuda =
        (const char *const[]){"#define KERNEL ph_claim\n#define CLAIM\n", ph__text_indexing, NULL},
    .host = claim_host,
    .args_size = sizeof(ph__claim_args),
    .params = claim_params,
    .param_count = sizeof claim_params / sizeof claim_params[0]};

/* ---- adding along columns ---- integers wrap around. */
#define ADD_COLUMNS(dtype, type)                                                                   \
    static void add_columns_##dtype(const ph_block_range *range, const void *args)                 \
    {                                                                                              \
        const ph__add_columns_args *a = args;                                                      \
        int64_t column, end = items_of_blocks(range, PH__COLUMN_BLOCK, a->columns, &column);       \
        for (; column < end; column++) {                                                           \
            int64_t place = ph__place_of(&a->at, column);                                          \
            int64_t i = column / a->inner * a->inner * a->length + column % a->inner;              \
            for (int64_t j = 0; j < a->length; j++, i += a->inner) {                               \
                int64_t v = ph__index_at(a->index, a->wide, i);                                    \
                if (v >= 0 && v < a->at.n) {                                                       \
                    type *to = (type *)a->out + place + v * a->at.step;                            \
                    *to = (type)(*to + ((const type *)a->src)[i]);                                 \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
ADD_COLUMNS(f32, float)
ADD_COLUMNS(f64, double)
ADD_COLUMNS(i32, uint32_t)
ADD_COLUMNS(i64, uint64_t)
ADD_COLUMNS(u8, uint8_t)

static const ph_param add_columns_params[] = {
    PH_PARAM(ph__add_columns_args, src, PH_PARAM_ADDRESS),
    PH_PARAM(ph__add_columns_args, index, PH_PARAM_ADDRESS),
    PH_PARAM(ph__add_columns_args, out, PH_PARAM_ADDRESS),
    PH_PARAM(ph__add_columns_args, at, PH_PARAM_VALUE),
    PH_PARAM(ph__add_columns_args, columns, PH_PARAM_VALUE),
    PH_PARAM(ph__add_columns_args, length, PH_PARAM_VALUE),
    PH_PARAM(ph__add_columns_args, inner, PH_PARAM_VALUE),
    PH_PARAM(ph__add_columns_args, wide, PH_PARAM_VALUE)};
#define COLUMNS_DEF(dtype, word)                                                                   \
    {                                                                                              \
        .name = "ph_add_columns_" #dtype,                                                          \
        .cuda = (const char *const[]){"#define T " #word "\n#define KERNEL ph_add_columns_" #dtype \
                                      "\n#define ADD_COLUMNS\n",                                   \
                                      ph__text_indexing, NULL},                                    \
        .host = add_columns_##dtype, .args_size = sizeof(ph__add_columns_args),                    \
        .params = add_columns_params,                                                              \
        .param_count = sizeof add_columns_params / sizeof add_columns_params[0]                    \
    }
static ph__kernel_def add_columns_kernels[] = {COLUMNS_DEF(f32, f32), COLUMNS_DEF(f64, f64),
                                               COLUMNS_DEF(i32, u32), COLUMNS_DEF(i64, u64),
                                               COLUMNS_DEF(u8, u8)};

ph__kernel_def *ph__add_columns_kernel(ph_dtype dtype)
{
    switch (dtype) {
    case PH_DTYPE_F32:
        return &add_columns_kernels[0];
    case PH_DTYPE_F64:
        return &add_columns_kernels[1];
    case PH_DTYPE_I32:
        return &add_columns_kernels[2];
    case PH_DTYPE_I64:
        return &add_columns_kernels[3];
    case PH_DTYPE_U8:
        return &add_columns_kernels[4];
    default:
        return NULL;
    }
}

#define FOUR(defs) &defs[0], &defs[1], &defs[2], &defs[3]
PH__KERNEL_FAMILY(indexing) = {
    FOUR(ph__take_kernels),    &ph__take_kernels[4],           FOUR(ph__gather_kernels),
    FOUR(ph__write_kernels),   FOUR(ph__winners_grad_kernels), &ph__claim_kernel,
    FOUR(add_columns_kernels), &add_columns_kernels[4],        NULL};

uint64_t ph__bad_value(ph_dtype dtype)
{
    switch (dtype) {
    case PH_DTYPE_F32:
        return 0x7fc000007fc00000u;
    case PH_DTYPE_F64:
        return 0x7ff8000000000000u;
    case PH_DTYPE_F16:
        return 0x7e007e007e007e00u;
    case PH_DTYPE_BF16:
        return 0x7fc07fc07fc07fc0u;
    default:
        return 0;
    }
}
