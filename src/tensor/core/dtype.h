/* SPDX-License-Identifier: MIT */
/* tensor/core/dtype.h: sizes and kinds of the dtypes of tensors, without a call: what ph_dtype_size
 * and ph_dtype_is_floating say, of a dtype that is known to be one. */
#ifndef PH_TENSOR_CORE_DTYPE_H
#define PH_TENSOR_CORE_DTYPE_H
#include <phonograph/operators.h>

extern const unsigned char ph__dtype_sizes[PH_DTYPE_BOOL + 1];

static inline size_t ph__dtype_size(ph_dtype dtype)
{
    return ph__dtype_sizes[dtype];
}

/* The floating ones come first. */
static inline bool ph__dtype_is_floating(ph_dtype dtype)
{
    return dtype <= PH_DTYPE_BF16;
}
#endif
