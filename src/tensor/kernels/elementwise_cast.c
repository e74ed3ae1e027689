/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_cast.c: the kernels that copy: from each dtype to each other one, and
 * elements as they are, by their size; and two casts at once. */
#include "tensor/kernels/elementwise_cast.h"
#include "tensor/backend/kernels.h"
#include "tensor/backend/texts.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_cores.h"
#include "tensor/kernels/elementwise_host.h"

#undef bool /* bool is a word in the names of kernels here */

static const ph_param addresses[] = {{"out", PH_PARAM_ADDRESS, 0, 8, {0}},
                                     {"x", PH_PARAM_ADDRESS, 8, 8, {0}}};

#define TEXT(name, layout, from, to, expression)                                                   \
    "#define PH_NAME " name "\n#define PH_" #layout " 1\n#define PH_FROM ph_" #from                \
    "\n#define PH_T ph_" #to                                                                       \
    "\n#define PH_OPERANDS_F 1\n#define PH_RESULT_SAME 1\n#define PH_LET x\n#define "              \
    "PH_EXPRESSION " expression "\n"
#define DEFINE_LAYOUT(layout, from, to, id, expression)                                            \
    static void id##_##layout(const ph_block_range *range, const void *args)                       \
    {                                                                                              \
        ph__elementwise_host_##layout(range, args, &id##_info);                                    \
    }                                                                                              \
    static const char *const id##_##layout##_text[] = {                                            \
        TEXT("ph_" #id "_" #layout, layout, from, to, expression), ph__text_elementwise, NULL};    \
    static ph__kernel_def id##_##layout##_def = {.name = "ph_" #id "_" #layout,                    \
                                                 .cuda = id##_##layout##_text,                     \
                                                 .host = id##_##layout,                            \
                                                 .args_size = 2 * sizeof(void *) +                 \
                                                              sizeof(ph__elementwise_##layout),    \
                                                 .params = addresses,                              \
                                                 .param_count = 2};
#define DEFINE(from, to, id, from_dtype, to_dtype, core_row, core_column, core_gives, expression)  \
    static const ph__elementwise_info id##_info = {.arity = 1,                                     \
                                                   .dtype = {to_dtype, from_dtype},                \
                                                   .core = core_row,                               \
                                                   .type = core_column,                            \
                                                   .out_type = core_gives};                        \
    DEFINE_LAYOUT(flat, from, to, id, expression)                                                  \
    DEFINE_LAYOUT(strided, from, to, id, expression)

/* A dtype, its enumerator, and the type it is computed in; and for what is cast to: the type
 * that f16 and bf16 are rounded from, where the number may have more digits than f32. */
#define CAST(from, FROM, FROM_TYPE, to, TO, TO_TYPE, GIVES)                                        \
    DEFINE(from, to, cast_##from##_##to, PH_DTYPE_##FROM, PH_DTYPE_##TO,                           \
           PH__CORE_CAST + PH__CORE_##FROM_TYPE, PH__CORE_##TO_TYPE, GIVES, "CAST(t)")
#define TO_F32(X, ...)  X(__VA_ARGS__, f32, F32, F32, 0)
#define TO_F64(X, ...)  X(__VA_ARGS__, f64, F64, F64, 0)
#define TO_F16(X, ...)  X(__VA_ARGS__, f16, F16, F32, 0)
#define TO_BF16(X, ...) X(__VA_ARGS__, bf16, BF16, F32, 0)
#define TO_I32(X, ...)  X(__VA_ARGS__, i32, I32, I32, 0)
#define TO_I64(X, ...)  X(__VA_ARGS__, i64, I64, I64, 0)
#define TO_U8(X, ...)   X(__VA_ARGS__, u8, U8, U8, 0)
#define TO_BOOL(X, ...) X(__VA_ARGS__, bool, BOOL, BOOL, 0)
#define TO_HALF(X, ...)                                                                            \
    X(__VA_ARGS__, f16, F16, F64, PH_DTYPE_F64) X(__VA_ARGS__, bf16, BF16, F64, PH_DTYPE_F64)
#define TO_INTEGERS(X, ...)                                                                        \
    TO_I32(X, __VA_ARGS__) TO_I64(X, __VA_ARGS__) TO_U8(X, __VA_ARGS__) TO_BOOL(X, __VA_ARGS__)
#define PAIRS(X)                                                                                   \
    TO_F64(X, f32, F32, F32)                                                                       \
    TO_F16(X, f32, F32, F32)                                                                       \
    TO_BF16(X, f32, F32, F32)                                                                      \
    TO_INTEGERS(X, f32, F32, F32)                                                                  \
    TO_F32(X, f64, F64, F64)                                                                       \
    TO_HALF(X, f64, F64, F64)                                                                      \
    TO_INTEGERS(X, f64, F64, F64)                                                                  \
    TO_F32(X, f16, F16, F32)                                                                       \
    TO_F64(X, f16, F16, F32)                                                                       \
    TO_BF16(X, f16, F16, F32)                                                                      \
    TO_INTEGERS(X, f16, F16, F32)                                                                  \
    TO_F32(X, bf16, BF16, F32)                                                                     \
    TO_F64(X, bf16, BF16, F32)                                                                     \
    TO_F16(X, bf16, BF16, F32)                                                                     \
    TO_INTEGERS(X, bf16, BF16, F32)                                                                \
    TO_F32(X, i32, I32, I32)                                                                       \
    TO_F64(X, i32, I32, I32)                                                                       \
    TO_HALF(X, i32, I32, I32)                                                                      \
    TO_I64(X, i32, I32, I32)                                                                       \
    TO_U8(X, i32, I32, I32)                                                                        \
    TO_BOOL(X, i32, I32, I32)                                                                      \
    TO_F32(X, i64, I64, I64)                                                                       \
    TO_F64(X, i64, I64, I64)                                                                       \
    TO_HALF(X, i64, I64, I64)                                                                      \
    TO_I32(X, i64, I64, I64)                                                                       \
    TO_U8(X, i64, I64, I64)                                                                        \
    TO_BOOL(X, i64, I64, I64)                                                                      \
    TO_F32(X, u8, U8, U8)                                                                          \
    TO_F64(X, u8, U8, U8)                                                                          \
    TO_F16(X, u8, U8, U8)                                                                          \
    TO_BF16(X, u8, U8, U8)                                                                         \
    TO_I32(X, u8, U8, U8)                                                                          \
    TO_I64(X, u8, U8, U8)                                                                          \
    TO_BOOL(X, u8, U8, U8)                                                                         \
    TO_F32(X, bool, BOOL, U8)                                                                      \
    TO_F64(X, bool, BOOL, U8)                                                                      \
    TO_F16(X, bool, BOOL, U8)                                                                      \
    TO_BF16(X, bool, BOOL, U8)                                                                     \
    TO_I32(X, bool, BOOL, U8)                                                                      \
    TO_I64(X, bool, BOOL, U8)                                                                      \
    TO_U8(X, bool, BOOL, U8)
PAIRS(CAST)

DEFINE(u8, u8, copy_1, PH_DTYPE_U8, PH_DTYPE_U8, PH__CORE_COPY, 0, 0, "t")
DEFINE(u16, u16, copy_2, PH__ELEMENTWISE_RAW16, PH__ELEMENTWISE_RAW16, PH__CORE_COPY, 1, 0, "t")
DEFINE(u32, u32, copy_4, PH_DTYPE_F32, PH_DTYPE_F32, PH__CORE_COPY, 2, 0, "t")
DEFINE(u64, u64, copy_8, PH_DTYPE_F64, PH_DTYPE_F64, PH__CORE_COPY, 3, 0, "t")

/* ---- two at once ---- a weight and its bias: by the host's loops for one. */
typedef struct two_args {
    void *out;
    const void *x;
    void *other_out;
    const void *other_x;
    int64_t n, other_n;
} two_args;
static const ph_param two_params[] = {
    PH_PARAM(two_args, out, PH_PARAM_ADDRESS), PH_PARAM(two_args, x, PH_PARAM_ADDRESS),
    PH_PARAM(two_args, other_out, PH_PARAM_ADDRESS), PH_PARAM(two_args, other_x, PH_PARAM_ADDRESS),
    PH_PARAM(two_args, n, PH_PARAM_VALUE)};

typedef struct one_args {
    void *out;
    const void *x;
    ph__elementwise_flat flat;
} one_args;

static uint64_t blocks_of_cast(int64_t n)
{
    return ((uint64_t)n + PH__ELEMENTWISE_ITEMS - 1) / PH__ELEMENTWISE_ITEMS;
}

static void cast_part(const ph_block_range *range, uint64_t begin, uint64_t count, one_args args,
                      const ph__elementwise_info *info)
{
    ph_block_range part = *range;
    part.begin = range->begin > begin ? range->begin - begin : 0;
    part.end = range->end > begin ? range->end - begin : 0;
    part.end = part.end < count ? part.end : count;
    args.flat.step[0] = args.flat.step[1] = 1;
    if (part.begin < part.end)
        ph__elementwise_host_flat(&part, &args, info);
}

static void cast_both(const ph_block_range *range, const void *args,
                      const ph__elementwise_info *info)
{
    const two_args *a = args;
    uint64_t first = blocks_of_cast(a->n);
    cast_part(range, 0, first, (one_args){a->out, a->x, {.n = a->n}}, info);
    cast_part(range, first, blocks_of_cast(a->other_n),
              (one_args){a->other_out, a->other_x, {.n = a->other_n}}, info);
}

#define DEFINE_TWO(half)                                                                           \
    static void cast_two_##half(const ph_block_range *range, const void *args)                     \
    {                                                                                              \
        cast_both(range, args, &cast_f32_##half##_info);                                           \
    }                                                                                              \
    static const char *const cast_two_##half##_text[] = {                                          \
        TEXT("ph_cast_f32_" #half "_two", two, f32, half, "CAST(t)"), ph__text_elementwise, NULL}; \
    static ph__kernel_def cast_two_##half##_def = {.name = "ph_cast_f32_" #half "_two",            \
                                                   .cuda = cast_two_##half##_text,                 \
                                                   .host = cast_two_##half,                        \
                                                   .args_size = sizeof(two_args),                  \
                                                   .params = two_params,                           \
                                                   .param_count = 5};
DEFINE_TWO(f16)
DEFINE_TWO(bf16)

_Bool ph__elementwise_cast_two(ph__op *op, ph_tensor *const out[2], ph_tensor *const in[2])
{
    const two_args args = {.out = out[0]->data,
                           .x = in[0]->data,
                           .other_out = out[1]->data,
                           .other_x = in[1]->data,
                           .n = in[0]->count,
                           .other_n = in[1]->count};
    return ph__op_launch(op, out[0]->dtype == PH_DTYPE_F16 ? &cast_two_f16_def : &cast_two_bf16_def,
                         blocks_of_cast(args.n) + blocks_of_cast(args.other_n),
                         PH__ELEMENTWISE_THREADS, 0, &args);
}

/* ---- tables ---- */
#define PAIR(id)                                                                                   \
    {                                                                                              \
        &id##_flat_def, &id##_strided_def                                                          \
    }
#define ENTRY(from, FROM, FROM_TYPE, to, TO, TO_TYPE, GIVES)                                       \
    [PH_DTYPE_##FROM][PH_DTYPE_##TO] = PAIR(cast_##from##_##to),
const ph__elementwise_pair ph__elementwise_casts[PH__ELEMENTWISE_DTYPES][PH__ELEMENTWISE_DTYPES] = {
    PAIRS(ENTRY)};
const ph__elementwise_pair ph__elementwise_copies[9] = {
    [1] = PAIR(copy_1), [2] = PAIR(copy_2), [4] = PAIR(copy_4), [8] = PAIR(copy_8)};

#define LIST(id)                                                 &id##_flat_def, &id##_strided_def,
#define LIST_CAST(from, FROM, FROM_TYPE, to, TO, TO_TYPE, GIVES) LIST(cast_##from##_##to)
ph__kernel_def *const ph__cast_kernels[] = {
    PAIRS(LIST_CAST) LIST(copy_1) LIST(copy_2) LIST(copy_4) LIST(copy_8) & cast_two_f16_def,
    &cast_two_bf16_def, NULL};
