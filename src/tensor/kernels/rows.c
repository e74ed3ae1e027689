/* SPDX-License-Identifier: MIT */
/* tensor/kernels/rows.c: dense operands for kernels that step along rows, and pieces of rows on the
 * host. */
#include "tensor/kernels/rows.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_cores.h"

/* The loops of the element-wise operators, which are there for each level of the processor's
 * instructions. */
static void run_core(int core, int type, void *out, const void *x, int64_t n)
{
    const ph__scalar none = {.i = 0};
    ph__cores()[core][type](out, x, NULL, NULL, n, none, none);
}

void ph__exps_float(float *x, int64_t n)
{
    run_core(PH__CORE_exp, PH__CORE_F32, x, x, n);
}

void ph__exps_double(double *x, int64_t n)
{
    run_core(PH__CORE_exp, PH__CORE_F64, x, x, n);
}

void ph__halves_get(ph_dtype dtype, float *out, const uint16_t *half, int64_t n)
{
    run_core(PH__CORE_HALF, dtype == PH_DTYPE_F16 ? 0 : 2, out, half, n);
}

void ph__halves_put(ph_dtype dtype, uint16_t *half, const float *x, int64_t n)
{
    run_core(PH__CORE_HALF, dtype == PH_DTYPE_F16 ? 1 : 3, half, x, n);
}

int64_t ph__shape_product(const ph_shape *shape, size_t first, size_t last)
{
    int64_t count = 1;
    for (size_t i = first; i < last; i++)
        count *= shape->dim[i];
    return count;
}
