/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_cores.c: the loops of reduce.def and of argmax over arrays, for each
 * type that is computed in. */
#include "tensor/kernels/reduce_cores.h"
#include "tensor/kernels/math.h"
#include "tensor/kernels/reduce.h"
#include <math.h>

enum {
    /* accumulators side by side in a row: a fixed order of joining, which vectors of any width
     * keep */
    LANES = 32
};

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
        &name##_cores_f32, &name##_cores_f64, NULL, NULL, NULL, NULL                               \
    }
#define INTEGERS_ENTRY(name)                                                                       \
    {                                                                                              \
        NULL, NULL, &name##_cores_i32, &name##_cores_i64, &name##_cores_u8, &name##_cores_u8       \
    }
#define ALL_ENTRY(name)                                                                            \
    {                                                                                              \
        &name##_cores_f32, &name##_cores_f64, &name##_cores_i32, &name##_cores_i64,                \
            &name##_cores_u8, &name##_cores_u8                                                     \
    }
#define PH__REDUCE(name, dtypes, ...) dtypes##_ENTRY(name),
const ph__reduce_cores *const ph__reduce_core_table[PH__REDUCTIONS][PH__CORE_TYPES] = {
#include "tensor/kernels/reduce.def"
    ALL_ENTRY(argmax)};
