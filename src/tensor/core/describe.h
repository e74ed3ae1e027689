/* SPDX-License-Identifier: MIT */
/* tensor/core/describe.h: dtype and shape in messages. */
#ifndef PH_TENSOR_CORE_DESCRIBE_H
#define PH_TENSOR_CORE_DESCRIBE_H
#include <phonograph/operators.h>

/* "f32[2, 3]" into a buffer of at least PH__DESCRIBE bytes; NULL: "NULL". Gives text. */
enum {
    PH__DESCRIBE = 256
};
const char *ph__describe(char text[PH__DESCRIBE], const ph_tensor *x);
/* of at most PH_MAX_RANK dimensions */
const char *ph__describe_shape(char text[PH__DESCRIBE], ph_dtype dtype, const ph_shape *shape);
#endif
