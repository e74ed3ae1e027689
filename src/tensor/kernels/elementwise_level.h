/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_level.h: included once for each level of instructions: the loops of
 * elementwise.def, of casts and of conversions. PH__LEVEL: its name; PH__LEVEL_TARGET: the
 * functions' attribute; PH__LEVEL_MATH(name): which form of math.h's functions. Gives
 * ph__cores_<level>. */
#define JOIN_(a, b, c, d) a##_##b##_##c##_##d
#define JOIN(a, b, c, d)  JOIN_(a, b, c, d)

/* ---- what the expressions are made of ---- */
#define C(value) ((T)(value))
#define OPERANDS_NONE
#define OPERANDS_V   const T *xs = px;
#define OPERANDS_VV  const T *xs = px, *ys = py;
#define OPERANDS_VVV const T *xs = px, *ys = py, *zs = pz;
#define OPERANDS_BV                                                                                \
    const uint8_t *xs = px;                                                                        \
    const T *ys = py;
#define OPERANDS_BVV                                                                               \
    const uint8_t *xs = px;                                                                        \
    const T *ys = py, *zs = pz;
#define LOAD_NONE
#define LOAD_V   const T x = xs[i];
#define LOAD_VV  const T x = xs[i], y = ys[i];
#define LOAD_VVV const T x = xs[i], y = ys[i], z = zs[i];
#define LOAD_BV                                                                                    \
    const uint8_t x = xs[i];                                                                       \
    const T y = ys[i];
#define LOAD_BVV                                                                                   \
    const uint8_t x = xs[i];                                                                       \
    const T y = ys[i], z = zs[i];
#define RESULT_SAME T
#define RESULT_BOOL uint8_t
#define LOOP(name, operands, dtypes, result, let, expression)                                      \
    PH__LEVEL_TARGET static void JOIN(name, TYPE_NAME, PH__LEVEL, loop)(                           \
        void *out, const void *px, const void *py, const void *pz, int64_t n, ph__scalar sa,       \
        ph__scalar sb)                                                                             \
    {                                                                                              \
        RESULT_##result *to = out;                                                                 \
        OPERANDS_##operands const T a = SCALAR(sa), b = SCALAR(sb);                                \
        (void)px, (void)py, (void)pz, (void)a, (void)b;                                            \
        PH__VECTOR_LOOP for (int64_t i = 0; i < n; i++)                                            \
        {                                                                                          \
            LOAD_##operands const T t = (let);                                                     \
            to[i] = (RESULT_##result)(expression);                                                 \
        }                                                                                          \
    }

#include "tensor/kernels/elementwise_conversions.h"
#include "tensor/kernels/elementwise_floats.h"
#include "tensor/kernels/elementwise_integers.h"

/* ---- the table ---- */
#define OF(name, type)   JOIN(name, type, PH__LEVEL, loop)
#define ROW_FLOATS(name) {OF(name, f32), OF(name, f64), NULL, NULL, NULL, NULL},
#define ROW_NUMBERS(name)                                                                          \
    {OF(name, f32), OF(name, f64), OF(name, i32), OF(name, i64), OF(name, u8), NULL},
#define ROW_ALL(name)                                                                              \
    {OF(name, f32), OF(name, f64), OF(name, i32), OF(name, i64), OF(name, u8), OF(name, u8)},
#define PH__ELEMENTWISE(name, operands, dtypes, result, let, expression) ROW_##dtypes(name)
#define FROM(from)                                                                                 \
    {OF(convert, from##_f32), OF(convert, from##_f64), OF(convert, from##_i32),                    \
     OF(convert, from##_i64), OF(convert, from##_u8),  OF(convert, from##_bool)},
#define TABLE_(level) ph__cores_##level
#define TABLE(level)  TABLE_(level)
static const ph__core TABLE(PH__LEVEL)[PH__CORES][PH__CORE_TYPES] = {
#include "tensor/kernels/elementwise.def"
    FROM(f32) FROM(f64) FROM(i32) FROM(i64) FROM(u8)
        FROM(u8){OF(convert, get_f16), OF(convert, put_f16), OF(convert, get_bf16),
                 OF(convert, put_bf16), OF(convert, to_odd), NULL},
    {OF(convert, copy_1), OF(convert, copy_2), OF(convert, copy_4), OF(convert, copy_8), NULL,
     NULL},
};
#undef PH__ELEMENTWISE
#undef ROW_FLOATS
#undef ROW_NUMBERS
#undef ROW_ALL
#undef FROM
#undef TABLE
#undef TABLE_
#undef OF
#undef LOOP
#undef C
#undef OPERANDS_NONE
#undef OPERANDS_V
#undef OPERANDS_VV
#undef OPERANDS_VVV
#undef OPERANDS_BV
#undef OPERANDS_BVV
#undef LOAD_NONE
#undef LOAD_V
#undef LOAD_VV
#undef LOAD_VVV
#undef LOAD_BV
#undef LOAD_BVV
#undef RESULT_SAME
#undef RESULT_BOOL
#undef JOIN
#undef JOIN_
#undef PH__LEVEL
#undef PH__LEVEL_TARGET
#undef PH__LEVEL_MATH
