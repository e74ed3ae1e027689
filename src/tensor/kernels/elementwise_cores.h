/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_cores.h: cores of element-wise kernels on the host: loops over
 * contiguous arrays of the dtypes that are computed in, one set for each level of the
 * processor's instructions. */
#ifndef PH_TENSOR_KERNELS_ELEMENTWISE_CORES_H
#define PH_TENSOR_KERNELS_ELEMENTWISE_CORES_H
#include "tensor/kernels/elementwise.h"

typedef void (*ph__core)(void *out, const void *x, const void *y, const void *z, int64_t n,
                         ph__scalar a, ph__scalar b);
typedef enum ph__core_type {
    PH__CORE_F32,
    PH__CORE_F64,
    PH__CORE_I32,
    PH__CORE_I64,
    PH__CORE_U8,   /* and bool */
    PH__CORE_BOOL, /* casts to it differ from those to u8 */
    PH__CORE_TYPES
} ph__core_type;
enum {
#define PH__ELEMENTWISE(name, operands, dtypes, result, let, expression) PH__CORE_##name,
#include "tensor/kernels/elementwise.def"
#undef PH__ELEMENTWISE
    PH__CORE_CAST, /* + the core type that is cast from; by the type that is cast to */
    /* [0]: f16 to f32, [1]: f32 to f16, [2], [3]: bf16, [4]: f64 to f32, to be rounded again */
    PH__CORE_HALF = PH__CORE_CAST + PH__CORE_TYPES,
    PH__CORE_COPY, /* [0] to [3]: elements of 1, 2, 4, 8 bytes */
    PH__CORES
};
typedef const ph__core (*ph__core_table)[PH__CORE_TYPES];
/* The level of instructions of this processor, which loops have versions for. AVX2: with fused
 * multiply and add; AVX512: F, BW, DQ and VL. */
typedef enum ph__core_level_number {
    PH__CORE_BASE = 1,
    PH__CORE_AVX2,
    PH__CORE_AVX512
} ph__core_level_number;
ph__core_level_number ph__core_level(void);
/* The best set that this processor runs. */
ph__core_table ph__cores(void);
#endif
