/* SPDX-License-Identifier: MIT */
/* tensor/rows.c: dense operands for kernels that step along rows. */
#include "tensor/rows.h"

ph_tensor *ph__dense(ph_tape *tape, ph_tensor *x)
{
    if (!x || x->contiguous)
        return x;
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    ph_tensor *copy = ph_contiguous(tape, x);
    ph_tape_set_grad_enabled(tape, enabled);
    return copy;
}

int64_t ph__shape_product(const ph_shape *shape, size_t first, size_t last)
{
    int64_t count = 1;
    for (size_t i = first; i < last; i++)
        count *= shape->dim[i];
    return count;
}
