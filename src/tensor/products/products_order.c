/* SPDX-License-Identifier: MIT */
/* tensor/products/products_order.c: transposed copies of operands, for products that a GPU
 * multiplies faster then. */
#include "tensor/products/products_order.h"
#include "tensor/backend/backend.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels/transpose.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"
#include <phonograph/operators.h>

/* Hopper's tensor cores read TF32 from shared memory in rows along k alone. Where neither operand
 * lies so, as for the gradient of a weight, cuBLASLt's kernels take 1.3 to 1.8 times as long as
 * where one does, and the copy of the smaller operand takes a part of that. Measured on an H200
 * with k 4096, in us, without the copy / with one operand in the other order: 2304 x 768 85 / 47,
 * 768 x 768 38 / 28, 3072 x 768 107 / 69, 50304 x 768 1244 / 882; a copy of 4096 x 768 takes 7. */
enum {
    HOPPER = 90
};
static const double large_product = 0x1p31; /* multiplications */

static bool wants_copy(const ph__op *op, const ph__product *p)
{
    return p->dtype == PH_DTYPE_F32 && ph_tf32() && p->batch == 1 && p->transpose_a &&
           !p->transpose_b && op->tape->backend->info.compute_capability == HOPPER &&
           (double)p->m * (double)p->n * (double)p->k >= large_product;
}

bool ph__product_order(ph__op *op, ph__product *p)
{
    if (!wants_copy(op, p))
        return true;
    const bool first = p->m < p->n;
    ph__transposition t = {.in = first ? p->a : p->b,
                           .rows = p->k,
                           .columns = first ? p->m : p->n,
                           .step = first ? p->lda : p->ldb};
    ph_tensor *copy = ph__op_scratch(op, (size_t)(t.rows * t.columns) * sizeof(float));
    if (!copy)
        return false;
    t.out = copy->data;
    if (!ph__transpose(op, &t, sizeof(float)))
        return false;
    if (first) {
        p->a = t.out;
        p->lda = p->k;
        p->transpose_a = false;
    } else {
        p->b = t.out;
        p->ldb = p->k;
        p->transpose_b = true;
    }
    return true;
}
