/* SPDX-License-Identifier: MIT */
/* phonograph/dtype.h: the types of elements, of tensors and of collectives. */
#ifndef PHONOGRAPH_DTYPE_H
#define PHONOGRAPH_DTYPE_H
#include <phonograph/export.h>

PH_BEGIN_DECLS

/* f16 and bf16 are computed in f32. bool is one byte, 0 or 1. */
typedef enum ph_dtype {
    PH_DTYPE_F32 = 1,
    PH_DTYPE_F64 = 2,
    PH_DTYPE_F16 = 3,
    PH_DTYPE_BF16 = 4,
    PH_DTYPE_I32 = 5,
    PH_DTYPE_I64 = 6,
    PH_DTYPE_U8 = 7,
    PH_DTYPE_BOOL = 8
} ph_dtype;

PH_END_DECLS
#endif
