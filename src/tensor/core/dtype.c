/* SPDX-License-Identifier: MIT */
/* tensor/core/dtype.c: dtypes: their names, sizes and kinds. */
#include "tensor/core/dtype.h"

static const char *const names[] = {
    [PH_DTYPE_F32] = "f32",   [PH_DTYPE_F64] = "f64",   [PH_DTYPE_F16] = "f16",
    [PH_DTYPE_BF16] = "bf16", [PH_DTYPE_I32] = "i32",   [PH_DTYPE_I64] = "i64",
    [PH_DTYPE_U8] = "u8",     [PH_DTYPE_BOOL] = "bool",
};
const unsigned char ph__dtype_sizes[] = {
    [PH_DTYPE_F32] = 4, [PH_DTYPE_F64] = 8, [PH_DTYPE_F16] = 2, [PH_DTYPE_BF16] = 2,
    [PH_DTYPE_I32] = 4, [PH_DTYPE_I64] = 8, [PH_DTYPE_U8] = 1,  [PH_DTYPE_BOOL] = 1,
};

static bool is_dtype(ph_dtype dtype)
{
    return (unsigned)dtype >= PH_DTYPE_F32 && (unsigned)dtype <= PH_DTYPE_BOOL;
}

const char *ph_dtype_name(ph_dtype dtype)
{
    return is_dtype(dtype) ? names[dtype] : "?";
}

size_t ph_dtype_size(ph_dtype dtype)
{
    return is_dtype(dtype) ? ph__dtype_size(dtype) : 0;
}

bool ph_dtype_is_floating(ph_dtype dtype)
{
    return is_dtype(dtype) && ph__dtype_is_floating(dtype);
}
