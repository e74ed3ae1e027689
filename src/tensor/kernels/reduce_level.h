/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_level.h: included by reduce_cores.c once for each level of instructions:
 * the loops of reduce.def and of argmax. PH__LEVEL: its name; PH__LEVEL_TARGET: the functions'
 * attribute. Gives ph__reduce_<level>. The order of the sums is the same at each level, and
 * nothing is fused: so are the results. */
#define JOIN_NAMES_(a, b, c, d) a##_##b##_##c##_##d
#define JOIN_NAMES(a, b, c, d)  JOIN_NAMES_(a, b, c, d)
#define NAME(name, part)        JOIN_NAMES(name, part, TYPE_NAME, PH__LEVEL)
#define OF(name, type)          JOIN_NAMES(name, cores, type, PH__LEVEL)
#define LEVEL_TABLE_(level)     ph__reduce_##level
#define LEVEL_TABLE(level)      LEVEL_TABLE_(level)

/* ---- floats ---- */
#define WIDEN(t)              ((double)(t))
#define SUM_WIDE              double
#define END_WIDE              T
#define SUM_SAME              T
#define END_SAME              T
#define LOWEST                (-(T)INFINITY)
#define IS_NAN(p)             ((p) != (p))
#define ABS(p)                ((p) < 0 ? -(p) : (p) + 0) /* of -0 it is 0 */
#define SQRT(p)               sqrt(p)
#define POW(p, q)             pow(p, q)
#define DTYPES_FLOATS(X, ...) X(__VA_ARGS__)
#define DTYPES_INTEGERS(...)
#define DTYPES_ALL(X, ...) X(__VA_ARGS__)

#define T         float
#define TYPE_NAME f32
#include "tensor/kernels/reduce_loops.h"

#include "tensor/kernels/argmax_loops.h"
#undef T
#undef TYPE_NAME

#define T         double
#define TYPE_NAME f64
#include "tensor/kernels/reduce_loops.h"

#include "tensor/kernels/argmax_loops.h"
#undef T
#undef TYPE_NAME

#undef SUM_WIDE
#undef END_WIDE
#undef LOWEST
#undef IS_NAN
#undef DTYPES_FLOATS
#undef DTYPES_INTEGERS

/* ---- integers ---- sums wrap around. */
#define SUM_WIDE  int64_t
#define END_WIDE  int64_t
#define ADD(p, q) ((uint64_t)(p) + (uint64_t)(q))
#define IS_NAN(p) 0
#define DTYPES_FLOATS(...)
#define DTYPES_INTEGERS(X, ...) X(__VA_ARGS__)

#define T         int32_t
#define TYPE_NAME i32
#define LOWEST    INT32_MIN
#include "tensor/kernels/reduce_loops.h"

#include "tensor/kernels/argmax_loops.h"
#undef T
#undef TYPE_NAME
#undef LOWEST

#define T         int64_t
#define TYPE_NAME i64
#define LOWEST    INT64_MIN
#include "tensor/kernels/reduce_loops.h"

#include "tensor/kernels/argmax_loops.h"
#undef T
#undef TYPE_NAME
#undef LOWEST

#define T         uint8_t
#define TYPE_NAME u8
#define LOWEST    0
#include "tensor/kernels/reduce_loops.h"

#include "tensor/kernels/argmax_loops.h"

#define FLOATS_ENTRY(name)                                                                         \
    {                                                                                              \
        &OF(name, f32), &OF(name, f64), NULL, NULL, NULL, NULL                                     \
    }
#define INTEGERS_ENTRY(name)                                                                       \
    {                                                                                              \
        NULL, NULL, &OF(name, i32), &OF(name, i64), &OF(name, u8), &OF(name, u8)                   \
    }
#define ALL_ENTRY(name)                                                                            \
    {                                                                                              \
        &OF(name, f32), &OF(name, f64), &OF(name, i32), &OF(name, i64), &OF(name, u8),             \
            &OF(name, u8)                                                                          \
    }
#define PH__REDUCE(name, dtypes, ...) dtypes##_ENTRY(name),
static const ph__reduce_cores *const LEVEL_TABLE(PH__LEVEL)[PH__REDUCTIONS][PH__CORE_TYPES] = {
#include "tensor/kernels/reduce.def"
    ALL_ENTRY(argmax)};

/* ---- for the next level ---- */
#undef WIDEN
#undef SUM_SAME
#undef END_SAME
#undef ABS
#undef SQRT
#undef POW
#undef DTYPES_ALL
#undef SUM_WIDE
#undef END_WIDE
#undef ADD
#undef IS_NAN
#undef DTYPES_FLOATS
#undef DTYPES_INTEGERS
#undef T
#undef TYPE_NAME
#undef LOWEST
#undef FLOATS_ENTRY
#undef INTEGERS_ENTRY
#undef ALL_ENTRY
#undef PH__REDUCE
#undef JOIN_NAMES_
#undef JOIN_NAMES
#undef NAME
#undef LEVEL_TABLE_
#undef LEVEL_TABLE
#undef OF
#undef PH__REDUCE
#undef PH__LEVEL
#undef PH__LEVEL_TARGET
