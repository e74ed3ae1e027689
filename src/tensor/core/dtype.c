/* SPDX-License-Identifier: MIT */
/* tensor/core/dtype.c: dtypes: their names, sizes and kinds. */
#include <phonograph/operators.h>

static const struct {
    const char *name;
    size_t size;
    bool floating;
} dtypes[] = {
    [PH_DTYPE_F32] = {"f32", 4, true},  [PH_DTYPE_F64] = {"f64", 8, true},
    [PH_DTYPE_F16] = {"f16", 2, true},  [PH_DTYPE_BF16] = {"bf16", 2, true},
    [PH_DTYPE_I32] = {"i32", 4, false}, [PH_DTYPE_I64] = {"i64", 8, false},
    [PH_DTYPE_U8] = {"u8", 1, false},   [PH_DTYPE_BOOL] = {"bool", 1, false},
};

static bool is_dtype(ph_dtype dtype)
{
    return (unsigned)dtype >= PH_DTYPE_F32 && (unsigned)dtype <= PH_DTYPE_BOOL;
}

const char *ph_dtype_name(ph_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].name : "?";
}

size_t ph_dtype_size(ph_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].size : 0;
}

bool ph_dtype_is_floating(ph_dtype dtype)
{
    return is_dtype(dtype) && dtypes[dtype].floating;
}
