/* SPDX-License-Identifier: MIT */
/* tensor/core/describe.c: dtype and shape in messages. */
#include "tensor/core/describe.h"
#include "tensor/core/tensor.h"
#include <inttypes.h>
#include <stdio.h>

static void describe_named_shape(char *text, size_t size, const char *name, const ph_shape *shape)
{
    size_t rank = shape->rank <= PH_MAX_RANK ? shape->rank : PH_MAX_RANK;
    size_t used = (size_t)snprintf(text, size, "%s[", name);
    for (size_t i = 0; i < rank && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%" PRId64, i ? ", " : "", shape->dim[i]);
    if (used < size)
        (void)snprintf(text + used, size - used, "]");
}

const char *ph__describe(char text[PH__DESCRIBE], const ph_tensor *x)
{
    if (x)
        describe_named_shape(text, PH__DESCRIBE, ph_dtype_name(x->dtype), &x->shape);
    else
        (void)snprintf(text, PH__DESCRIBE, "NULL");
    return text;
}

const char *ph__describe_shape(char text[PH__DESCRIBE], ph_dtype dtype, const ph_shape *shape)
{
    describe_named_shape(text, PH__DESCRIBE, ph_dtype_name(dtype), shape);
    return text;
}
