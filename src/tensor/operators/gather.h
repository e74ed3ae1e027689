/* SPDX-License-Identifier: MIT */
/* tensor/operators/gather.h: elements that an index names, for gather and scatter. */
#ifndef PH_TENSOR_OPERATORS_GATHER_H
#define PH_TENSOR_OPERATORS_GATHER_H
#include "tensor/tape/op.h"

typedef struct ph__gather_state {
    ph_shape shape, src_shape; /* of x; of src */
    size_t axis;
} ph__gather_state;

/* in: x, index, perhaps src. False: the tape has failed. */
bool ph__gather_check(ph__op *op, int wanted, size_t *axis);
/* x[index] along axis, in the index's shape; index is dense. bad: read where it is out of range.
 * NULL: the tape has failed. */
ph_tensor *ph__gather_launch(ph__op *op, const ph_tensor *x, size_t axis, const ph_tensor *index,
                             uint64_t bad);
/* Adds src, of the index's shape, to out, both dense and of f32, f64, i32, i64 or u8. False: the
 * tape has failed. */
bool ph__gather_add(ph__op *op, ph_tensor *out, size_t axis, const ph_tensor *index,
                    const ph_tensor *src);
/* Half types are added in f32. Without history. */
ph_tensor *ph__gather_cast(ph_tape *tape, ph_tensor *x, ph_dtype dtype);
#endif
