/* SPDX-License-Identifier: MIT */
/* comm/work/reduce.c: elements of several ranks become one. Each element has its own sum, from rank
 * 0 on, so that neither threads nor pieces change a bit. */
#include "comm/work/reduce.h"
#include "base/half.h"

size_t ph__element_bytes(ph_dtype dtype)
{
    switch (dtype) {
    case PH_DTYPE_F64:
    case PH_DTYPE_I64:
        return 8;
    case PH_DTYPE_F32:
    case PH_DTYPE_I32:
        return 4;
    case PH_DTYPE_F16:
    case PH_DTYPE_BF16:
        return 2;
    case PH_DTYPE_U8:
    case PH_DTYPE_BOOL:
        return 1;
    }
    return 0;
}

static bool is_floating(ph_dtype dtype)
{
    return dtype == PH_DTYPE_F32 || dtype == PH_DTYPE_F64 || dtype == PH_DTYPE_F16 ||
           dtype == PH_DTYPE_BF16;
}

bool ph__reduce_accepts(ph_dtype dtype, ph_reduce_op op)
{
    if (dtype == PH_DTYPE_BOOL)
        return op == PH_REDUCE_MIN || op == PH_REDUCE_MAX;
    return op != PH_REDUCE_MEAN || is_floating(dtype);
}

static float same_f32(float x)
{
    return x;
}
static double same_f64(double x)
{
    return x;
}
static uint32_t same_u32(uint32_t x)
{
    return x;
}
static uint64_t same_u64(uint64_t x)
{
    return x;
}

/* One element: the accumulator is of the wider type. a != a: a NaN, which stays. */
#define COMBINE_FLOATING(A)                                                                        \
    switch (op) {                                                                                  \
    case PH_REDUCE_SUM:                                                                            \
    case PH_REDUCE_MEAN:                                                                           \
        a += b;                                                                                    \
        break;                                                                                     \
    case PH_REDUCE_PRODUCT:                                                                        \
        a *= b;                                                                                    \
        break;                                                                                     \
    case PH_REDUCE_MIN:                                                                            \
        a = a != a || a < b ? a : b;                                                               \
        break;                                                                                     \
    case PH_REDUCE_MAX:                                                                            \
        a = a != a || a > b ? a : b;                                                               \
        break;                                                                                     \
    }
#define REDUCE_FLOATING(name, T, A, get, put)                                                      \
    static void name(T *out, const T *parts, size_t stride, size_t ranks, size_t count,            \
                     ph_reduce_op op)                                                              \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            A a = get(parts[i]);                                                                   \
            for (size_t r = 1; r < ranks; r++) {                                                   \
                A b = get(parts[r * stride + i]);                                                  \
                COMBINE_FLOATING(A)                                                                \
            }                                                                                      \
            out[i] = put(op == PH_REDUCE_MEAN ? a / (A)ranks : a);                                 \
        }                                                                                          \
    }
REDUCE_FLOATING(reduce_f32, float, float, same_f32, same_f32)
REDUCE_FLOATING(reduce_f64, double, double, same_f64, same_f64)
REDUCE_FLOATING(reduce_f16, uint16_t, float, ph__f16_get, ph__f16_put)
REDUCE_FLOATING(reduce_bf16, uint16_t, float, ph__bf16_get, ph__bf16_put)

/* Sums and products wrap around in the unsigned type U, which `wide` widens. */
#define COMBINE_INTEGER(S, U, wide)                                                                \
    switch (op) {                                                                                  \
    case PH_REDUCE_SUM:                                                                            \
    case PH_REDUCE_MEAN:                                                                           \
        a = (S)(U)(wide((U)a) + wide((U)b));                                                       \
        break;                                                                                     \
    case PH_REDUCE_PRODUCT:                                                                        \
        a = (S)(U)(wide((U)a) * wide((U)b));                                                       \
        break;                                                                                     \
    case PH_REDUCE_MIN:                                                                            \
        a = a < b ? a : b;                                                                         \
        break;                                                                                     \
    case PH_REDUCE_MAX:                                                                            \
        a = a > b ? a : b;                                                                         \
        break;                                                                                     \
    }
#define REDUCE_INTEGER(name, S, U, wide)                                                           \
    static void name(S *out, const S *parts, size_t stride, size_t ranks, size_t count,            \
                     ph_reduce_op op)                                                              \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            S a = parts[i];                                                                        \
            for (size_t r = 1; r < ranks; r++) {                                                   \
                S b = parts[r * stride + i];                                                       \
                COMBINE_INTEGER(S, U, wide)                                                        \
            }                                                                                      \
            out[i] = a;                                                                            \
        }                                                                                          \
    }
REDUCE_INTEGER(reduce_i32, int32_t, uint32_t, same_u32)
REDUCE_INTEGER(reduce_i64, int64_t, uint64_t, same_u64)
REDUCE_INTEGER(reduce_u8, uint8_t, uint8_t, same_u32)

void ph__reduce_parts(void *out, const void *parts, size_t stride, size_t ranks, size_t count,
                      ph_dtype dtype, ph_reduce_op op)
{
    switch (dtype) {
    case PH_DTYPE_F32:
        reduce_f32(out, parts, stride, ranks, count, op);
        break;
    case PH_DTYPE_F64:
        reduce_f64(out, parts, stride, ranks, count, op);
        break;
    case PH_DTYPE_F16:
        reduce_f16(out, parts, stride, ranks, count, op);
        break;
    case PH_DTYPE_BF16:
        reduce_bf16(out, parts, stride, ranks, count, op);
        break;
    case PH_DTYPE_I32:
        reduce_i32(out, parts, stride, ranks, count, op);
        break;
    case PH_DTYPE_I64:
        reduce_i64(out, parts, stride, ranks, count, op);
        break;
    case PH_DTYPE_U8:
    case PH_DTYPE_BOOL:
        reduce_u8(out, parts, stride, ranks, count, op);
        break;
    }
}
