/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_cores.h: included once for each level of instructions: the loops of
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

/* ---- floats ---- */
#define PH__ELEMENTWISE(...) LOOP(__VA_ARGS__)
#define SCALAR(s)            ((T)(s).f)
#define ADD(p, q)            ((p) + (q))
#define SUB(p, q)            ((p) - (q))
#define MUL(p, q)            ((p) * (q))
#define DIV(p, q)            ((p) / (q))
#define NEG(p)               (-(p))
#define IS_NAN(p)            ((p) != (p))

#define T          float
#define TYPE_NAME  f32
#define ABS(p)     ph__absf(p)
#define EXP(p)     PH__LEVEL_MATH(expf)(p)
#define LOG(p)     PH__LEVEL_MATH(logf)(p)
#define SQRT(p)    sqrtf(p)
#define RSQRT(p)   (1.0f / sqrtf(p))
#define TANH(p)    PH__LEVEL_MATH(tanhf)(p)
#define SIGMOID(p) PH__LEVEL_MATH(sigmoidf)(p)
#define ERF(p)     PH__LEVEL_MATH(erff)(p)
/* Roots are roots: of -inf NaN, of -0 what sqrt and rsqrt give; pow has inf and 0 there. */
#define POW(p, q) ((q) == 0.5f ? sqrtf(p) : (q) == -0.5f ? 1.0f / sqrtf(p) : powf(p, q))
#include "tensor/kernels/elementwise.def"
#undef T
#undef TYPE_NAME
#undef ABS
#undef EXP
#undef LOG
#undef SQRT
#undef RSQRT
#undef TANH
#undef SIGMOID
#undef ERF
#undef POW

#define T          double
#define TYPE_NAME  f64
#define ABS(p)     fabs(p)
#define EXP(p)     exp(p)
#define LOG(p)     log(p)
#define SQRT(p)    sqrt(p)
#define RSQRT(p)   (1.0 / sqrt(p))
#define TANH(p)    tanh(p)
#define SIGMOID(p) (1.0 / (1.0 + exp(-(p))))
#define ERF(p)     erf(p)
#define POW(p, q)  ((q) == 0.5 ? sqrt(p) : (q) == -0.5 ? 1.0 / sqrt(p) : pow(p, q))
#include "tensor/kernels/elementwise.def"
#undef T
#undef TYPE_NAME
#undef ABS
#undef EXP
#undef LOG
#undef SQRT
#undef RSQRT
#undef TANH
#undef SIGMOID
#undef ERF
#undef POW
#undef PH__ELEMENTWISE
#undef SCALAR
#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef NEG
#undef IS_NAN

/* ---- integers ---- they wrap around, which signed ones do not by themselves. */
#define FOR_FLOATS(...)
#define FOR_NUMBERS(...) LOOP(__VA_ARGS__)
#define FOR_ALL(...)     LOOP(__VA_ARGS__)
#define PH__ELEMENTWISE(name, operands, dtypes, result, let, expression)                           \
    FOR_##dtypes(name, operands, dtypes, result, let, expression)
#define SCALAR(s) ((T)(s).i)
#define ADD(p, q) ((T)((U)(p) + (U)(q)))
#define SUB(p, q) ((T)((U)(p) - (U)(q)))
#define MUL(p, q) ((T)((U)(p) * (U)(q)))
#define NEG(p)    ((T)(0u - (U)(p)))
#define IS_NAN(p) 0

#define T         int32_t
#define U         uint32_t
#define TYPE_NAME i32
#define DIV(p, q) divide_i32(p, q)
#define ABS(p)    ((p) < 0 ? NEG(p) : (p))
#include "tensor/kernels/elementwise.def"
#undef T
#undef U
#undef TYPE_NAME
#undef DIV

#define T         int64_t
#define U         uint64_t
#define TYPE_NAME i64
#define DIV(p, q) divide_i64(p, q)
#include "tensor/kernels/elementwise.def"
#undef T
#undef U
#undef TYPE_NAME
#undef DIV
#undef ABS

#define T         uint8_t
#define U         uint32_t
#define TYPE_NAME u8
#define DIV(p, q) ((T)((q) == 0 ? 0 : (p) / (q)))
#define ABS(p)    (p)
#include "tensor/kernels/elementwise.def"
#undef T
#undef U
#undef TYPE_NAME
#undef DIV
#undef ABS
#undef PH__ELEMENTWISE
#undef SCALAR
#undef ADD
#undef SUB
#undef MUL
#undef NEG
#undef IS_NAN

/* ---- conversions ---- */
#define CONVERT(name, from_type, to_type, expression)                                              \
    PH__LEVEL_TARGET static void JOIN(convert, name, PH__LEVEL, loop)(                             \
        void *out, const void *px, const void *py, const void *pz, int64_t n, ph__scalar sa,       \
        ph__scalar sb)                                                                             \
    {                                                                                              \
        const from_type *xs = px;                                                                  \
        to_type *to = out;                                                                         \
        (void)py, (void)pz, (void)sa, (void)sb;                                                    \
        PH__VECTOR_LOOP for (int64_t i = 0; i < n; i++)                                            \
        {                                                                                          \
            const from_type x = xs[i];                                                             \
            to[i] = (to_type)(expression);                                                         \
        }                                                                                          \
    }
#define CONVERT_INT(from, from_type)                                                               \
    CONVERT(from##_f32, from_type, float, x)                                                       \
    CONVERT(from##_f64, from_type, double, x)                                                      \
    CONVERT(from##_i32, from_type, int32_t, x)                                                     \
    CONVERT(from##_i64, from_type, int64_t, x)                                                     \
    CONVERT(from##_u8, from_type, uint8_t, x)                                                      \
    CONVERT(from##_bool, from_type, uint8_t, x != 0)
#define CONVERT_FLOAT(from, from_type)                                                             \
    CONVERT(from##_f32, from_type, float, x)                                                       \
    CONVERT(from##_f64, from_type, double, x)                                                      \
    CONVERT(from##_i32, from_type, int32_t, to_i32((double)x))                                     \
    CONVERT(from##_i64, from_type, int64_t, to_i64((double)x))                                     \
    CONVERT(from##_u8, from_type, uint8_t, to_u8((double)x))                                       \
    CONVERT(from##_bool, from_type, uint8_t, x != 0)
CONVERT_FLOAT(f32, float)
CONVERT_FLOAT(f64, double)
CONVERT_INT(i32, int32_t)
CONVERT_INT(i64, int64_t)
CONVERT_INT(u8, uint8_t)
CONVERT(get_f16, uint16_t, float, ph__f16_get(x))
CONVERT(put_f16, float, uint16_t, ph__f16_put(x))
CONVERT(get_bf16, uint16_t, float, ph__bf16_get(x))
CONVERT(put_bf16, float, uint16_t, ph__bf16_put(x))
CONVERT(to_odd, double, float, ph__to_odd(x))
CONVERT(copy_1, uint8_t, uint8_t, x)
CONVERT(copy_2, uint16_t, uint16_t, x)
CONVERT(copy_4, uint32_t, uint32_t, x)
CONVERT(copy_8, uint64_t, uint64_t, x)

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
#undef CONVERT
#undef CONVERT_INT
#undef CONVERT_FLOAT
#undef FOR_FLOATS
#undef FOR_NUMBERS
#undef FOR_ALL
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
