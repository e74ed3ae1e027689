/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_kernels.c: the kernels of elementwise.def: for each function and
 * dtype one over flat and one over strided tensors. */
#include "tensor/kernels/elementwise_kernels.h"
#include "tensor/backend/kernels.h"
#include "tensor/backend/texts.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_cores.h"
#include "tensor/kernels/elementwise_host.h"

#undef bool /* bool is a word in the names of kernels here */

static const ph_param addresses[] = {{"out", PH_PARAM_ADDRESS, 0, 8, {0}},
                                     {"x", PH_PARAM_ADDRESS, 8, 8, {0}},
                                     {"y", PH_PARAM_ADDRESS, 16, 8, {0}},
                                     {"z", PH_PARAM_ADDRESS, 24, 8, {0}}};

/* ---- what the columns of the table stand for ---- */
#define ARITY_NONE 0
#define ARITY_V    1
#define ARITY_VV   2
#define ARITY_VVV  3
#define ARITY_BV   2
#define ARITY_BVV  3
#define BOOLS_NONE 0
#define BOOLS_V    0
#define BOOLS_VV   0
#define BOOLS_VVV  0
#define BOOLS_BV   1
#define BOOLS_BVV  1
#define DTYPES_NONE(d)
#define DTYPES_V(d)     , d
#define DTYPES_VV(d)    , d, d
#define DTYPES_VVV(d)   , d, d, d
#define DTYPES_BV(d)    , PH_DTYPE_BOOL, d
#define DTYPES_BVV(d)   , PH_DTYPE_BOOL, d, d
#define RESULT_SAME(d)  d
#define RESULT_BOOL(d)  PH_DTYPE_BOOL
#define GIVES_BOOL_SAME false
#define GIVES_BOOL_BOOL true

/* (macro, ...) with dtype, its enumerator, and the type it is computed in. */
#define FOR_FLOATS(X, ...)                                                                         \
    X(f32, F32, F32, __VA_ARGS__)                                                                  \
    X(f64, F64, F64, __VA_ARGS__) X(f16, F16, F32, __VA_ARGS__) X(bf16, BF16, F32, __VA_ARGS__)
#define FOR_NUMBERS(X, ...)                                                                        \
    FOR_FLOATS(X, __VA_ARGS__)                                                                     \
    X(i32, I32, I32, __VA_ARGS__) X(i64, I64, I64, __VA_ARGS__) X(u8, U8, U8, __VA_ARGS__)
#define FOR_ALL(X, ...) FOR_NUMBERS(X, __VA_ARGS__) X(bool, BOOL, U8, __VA_ARGS__)

/* ---- kernels ---- */
#define TEXT(layout, d, fn, operands, result, let, expression)                                     \
    "#define PH_NAME ph_" #fn "_" #layout "_" #d "\n#define PH_" #layout " 1\n#define PH_T ph_" #d \
    "\n#define PH_OPERANDS_" #operands " 1\n#define PH_RESULT_" #result " 1\n#define PH_LET " let  \
    "\n#define PH_EXPRESSION " expression "\n"
#define DEFINE_LAYOUT(layout, d, fn, operands, result, let, expression)                            \
    static void fn##_##layout##_##d(const ph_block_range *range, const void *args)                 \
    {                                                                                              \
        ph__elementwise_host_##layout(range, args, &fn##_info_##d);                                \
    }                                                                                              \
    static const char *const fn##_##layout##_##d##_text[] = {                                      \
        TEXT(layout, d, fn, operands, result, let, expression), ph__text_elementwise, NULL};       \
    static ph__kernel_def fn##_##layout##_##d##_def = {                                            \
        .name = "ph_" #fn "_" #layout "_" #d,                                                      \
        .cuda = fn##_##layout##_##d##_text,                                                        \
        .host = fn##_##layout##_##d,                                                               \
        .args_size = (ARITY_##operands + 1) * sizeof(void *) + sizeof(ph__elementwise_##layout),   \
        .params = addresses,                                                                       \
        .param_count = ARITY_##operands + 1};
#define DEFINE(d, D, TYPE, fn, operands, result, let, expression)                                  \
    static const ph__elementwise_info fn##_info_##d = {                                            \
        .arity = ARITY_##operands,                                                                 \
        .dtype = {RESULT_##result(PH_DTYPE_##D) DTYPES_##operands(PH_DTYPE_##D)},                  \
        .core = PH__CORE_##fn,                                                                     \
        .direct = PH_DTYPE_##D != PH_DTYPE_F16 && PH_DTYPE_##D != PH_DTYPE_BF16,                   \
        .type = PH__CORE_##TYPE};                                                                  \
    DEFINE_LAYOUT(flat, d, fn, operands, result, let, expression)                                  \
    DEFINE_LAYOUT(strided, d, fn, operands, result, let, expression)
#define PH__ELEMENTWISE(fn, operands, dtypes, result, let, expression)                             \
    FOR_##dtypes(DEFINE, fn, operands, result, #let, #expression)
#include "tensor/kernels/elementwise.def"
#undef PH__ELEMENTWISE

/* ---- tables ---- */
#define FLAT(dtype, DTYPE, TYPE, name)    [PH_DTYPE_##DTYPE] = &name##_flat_##dtype##_def,
#define STRIDED(dtype, DTYPE, TYPE, name) [PH_DTYPE_##DTYPE] = &name##_strided_##dtype##_def,
#define PH__ELEMENTWISE(id, operands, dtypes, result, let, expression)                             \
    const ph__elementwise ph__elementwise_##id = {.name = #id,                                     \
                                                  .arity = ARITY_##operands,                       \
                                                  .bools = BOOLS_##operands,                       \
                                                  .gives_bool = GIVES_BOOL_##result,               \
                                                  .flat = {FOR_##dtypes(FLAT, id)},                \
                                                  .strided = {FOR_##dtypes(STRIDED, id)}};
#include "tensor/kernels/elementwise.def"
#undef PH__ELEMENTWISE

#define LIST(d, D, TYPE, fn) &fn##_flat_##d##_def, &fn##_strided_##d##_def,

#define PH__ELEMENTWISE(name, operands, dtypes, result, let, expression) FOR_##dtypes(LIST, name)
ph__kernel_def *const ph__elementwise_kernels[] = {
#include "tensor/kernels/elementwise.def"
    NULL};
#undef PH__ELEMENTWISE
