/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_integers.h: included by elementwise_level.h: the loops of
 * elementwise.def over integers, which wrap around; signed ones do not by themselves. */
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
#undef FOR_FLOATS
#undef FOR_NUMBERS
#undef FOR_ALL
