/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_kernels.c: the kernels of reduce.def and of argmax: for each and each
 * dtype one for rows, one for columns, one that joins; and one for packed columns where PACKED_ of
 * the reduction has the dtype. */
#include "tensor/kernels/reduce_kernels.h"
#include "tensor/backend/kernels.h"
#include "tensor/backend/texts.h"
#include "tensor/kernels/reduce.h"
#include "tensor/kernels/reduce_cores.h"
#include "tensor/kernels/reduce_host.h"

#undef bool /* bool is a word in the names of kernels here */

static const ph_param addresses[] = {{"out", PH_PARAM_ADDRESS, 0, 8, {0}},
                                     {"x", PH_PARAM_ADDRESS, 8, 8, {0}}};

/* dtype, its enumerator, the type it is computed in, and what the result is where that is of the
 * accumulator's type. */
#define FOR_FLOATS(X, ...)                                                                         \
    X(f32, F32, F32, F32, __VA_ARGS__)                                                             \
    X(f64, F64, F64, F64, __VA_ARGS__)                                                             \
    X(f16, F16, F32, F16, __VA_ARGS__) X(bf16, BF16, F32, BF16, __VA_ARGS__)
#define FOR_HALVES(X, ...) X(f16, F16, F32, F32, __VA_ARGS__) X(bf16, BF16, F32, F32, __VA_ARGS__)
#define FOR_INTEGERS(X, ...)                                                                       \
    X(i32, I32, I32, I64, __VA_ARGS__)                                                             \
    X(i64, I64, I64, I64, __VA_ARGS__)                                                             \
    X(u8, U8, U8, I64, __VA_ARGS__) X(bool, BOOL, U8, I64, __VA_ARGS__)
#define FOR_ALL(X, ...) FOR_FLOATS(X, __VA_ARGS__) FOR_INTEGERS(X, __VA_ARGS__)

/* A bias's gradient is a sum of columns; no other was measured to gain. */
#define PACKED_sum(X, ...)                                                                         \
    X(f32, F32, F32, F32, __VA_ARGS__)                                                             \
    X(f16, F16, F32, F16, __VA_ARGS__) X(bf16, BF16, F32, BF16, __VA_ARGS__)
#define PACKED_sum_wide(X, ...) FOR_HALVES(X, __VA_ARGS__)
#define PACKED_count(X, ...)
#define PACKED_max(X, ...)
#define PACKED_norm1(X, ...)
#define PACKED_norm2(X, ...)
#define PACKED_normp(X, ...)
#define PACKED_norminf(X, ...)
#define PACKED_argmax(X, ...)

#define RESULT_WIDE(D, WIDE_D)  PH_DTYPE_##WIDE_D
#define RESULT_SAME(D, WIDE_D)  PH_DTYPE_##D
#define RESULT_INDEX(D, WIDE_D) PH_DTYPE_I64

#define TEXT(form, d, fn, sum, part, start, value, how, end)                                       \
    "#define PH_NAME ph_" #fn "_" #form "_" #d "\n#define PH_" #form " 1\n#define PH_T ph_" #d     \
    "\n#define PH_SUM_" #sum " 1\n#define PH_PART_" #part " 1\n#define PH_START " start            \
    "\n#define PH_VALUE " value "\n#define PH_JOIN " how "\n#define PH_END " end                   \
    "\n#define PH_OF_" #fn " 1\n"
#define DEFINE_FORM(form, d, fn, sum, part, start, value, how, end)                                \
    static void fn##_##form##_##d(const ph_block_range *range, const void *args)                   \
    {                                                                                              \
        ph__reduce_host_##form(range, args, &fn##_info_##d);                                       \
    }                                                                                              \
    static const char *const fn##_##form##_##d##_text[] = {                                        \
        TEXT(form, d, fn, sum, part, start, value, how, end), ph__text_reduce, NULL};              \
    static ph__kernel_def fn##_##form##_##d##_def = {.name = "ph_" #fn "_" #form "_" #d,           \
                                                     .cuda = fn##_##form##_##d##_text,             \
                                                     .host = fn##_##form##_##d,                    \
                                                     .args_size = sizeof(ph__reduce_args),         \
                                                     .params = addresses,                          \
                                                     .param_count = 2};
#define DEFINE(d, D, TYPE, WIDE_D, fn, sum, part, start, value, how, end)                          \
    static const ph__reduce_info fn##_info_##d = {.dtype = PH_DTYPE_##D,                           \
                                                  .result = RESULT_##sum(D, WIDE_D),               \
                                                  .core = PH__REDUCE_##fn,                         \
                                                  .type = PH__CORE_##TYPE};                        \
    DEFINE_FORM(rows, d, fn, sum, part, start, value, how, end)                                    \
    DEFINE_FORM(columns, d, fn, sum, part, start, value, how, end)                                 \
    DEFINE_FORM(join, d, fn, sum, part, start, value, how, end)
#define ph__reduce_host_packed ph__reduce_host_columns
#define DEFINE_PACKED(d, D, TYPE, WIDE_D, fn, sum, part, start, value, how, end)                   \
    DEFINE_FORM(packed, d, fn, sum, part, start, value, how, end)
#define PH__REDUCE(fn, dtypes, sum, part, start, value, join, end)                                 \
    FOR_##dtypes(DEFINE, fn, sum, part, #start, #value, #join, #end)                               \
        PACKED_##fn(DEFINE_PACKED, fn, sum, part, #start, #value, #join, #end)
#define ARGMAX(X) X(argmax, ALL, INDEX, INDEX, START(), VALUE(t), JOIN(p, q), END(p))
/* sum, with results in f32; on the host by its loops */
#define SUM_WIDE(X) X(sum_wide, HALVES, WIDE, SAME, 0, t, p + q, p / a)
enum {
    PH__REDUCE_sum_wide = PH__REDUCE_sum
};
#include "tensor/kernels/reduce.def"
ARGMAX(PH__REDUCE)
SUM_WIDE(PH__REDUCE)
#undef PH__REDUCE

/* ---- tables ---- accumulators of sums are f64 or i64; those of argmax are a value and an
 * index. */
#define BYTES_WIDE(D)                        8
#define BYTES_SAME(D)                        8
#define BYTES_INDEX(D)                       16
#define ROWS(d, D, TYPE, WIDE_D, fn, sum)    [PH_DTYPE_##D] = &fn##_rows_##d##_def,
#define COLUMNS(d, D, TYPE, WIDE_D, fn, sum) [PH_DTYPE_##D] = &fn##_columns_##d##_def,
#define PACKS(d, D, TYPE, WIDE_D, fn, sum)   [PH_DTYPE_##D] = &fn##_packed_##d##_def,
#define JOINS(d, D, TYPE, WIDE_D, fn, sum)   [PH_DTYPE_##D] = &fn##_join_##d##_def,
#define BYTES(d, D, TYPE, WIDE_D, fn, sum)   [PH_DTYPE_##D] = BYTES_##sum(D),
#define PH__REDUCE(fn, dtypes, sum, part, start, value, join_, end)                                \
    const ph__reduce ph__reduce_##fn = {                                                           \
        .name = #fn,                                                                               \
        .accumulator = {FOR_##dtypes(BYTES, fn, sum)},                                             \
        .rows = {FOR_##dtypes(ROWS, fn, sum)},                                                     \
        .columns = {FOR_##dtypes(COLUMNS, fn, sum)},                                               \
        .packed = {PACKED_##fn(PACKS, fn, sum)[PH__ELEMENTWISE_DTYPES] = NULL},                    \
        .join = {FOR_##dtypes(JOINS, fn, sum)}};
#include "tensor/kernels/reduce.def"
ARGMAX(PH__REDUCE)
SUM_WIDE(PH__REDUCE)
#undef PH__REDUCE

#define LIST(d, D, T, W, fn, sum)                                                                  \
    &fn##_rows_##d##_def, &fn##_columns_##d##_def, &fn##_join_##d##_def,
#define LIST_PACKED(d, D, T, W, fn, sum) &fn##_packed_##d##_def,

#define PH__REDUCE(fn, dtypes, sum, part, start, value, join, end)                                 \
    FOR_##dtypes(LIST, fn, sum) PACKED_##fn(LIST_PACKED, fn, sum)
ph__kernel_def *const ph__reduce_kernels[] = {
#include "tensor/kernels/reduce.def"
    ARGMAX(PH__REDUCE) SUM_WIDE(PH__REDUCE) NULL};
