/* SPDX-License-Identifier: MIT */
/* tensor/products/products.h: matrix products: a BLAS on the host, cuBLASLt on a GPU, both
 * loaded at run time; and a plain product where no BLAS is. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_H
#include "tensor/tape/op.h"

/* c[b] = a[b] * b[b] (+ bias) (+ c[b] where accumulate): row-major matrices of one floating dtype,
 * on the tape's stream.
 * - lda..: elements of a row, at least its length. Batch strides in elements; 0: the same matrix,
 *   not for c where batch > 1.
 * - m, n or batch 0: nothing happens. k is at least 1.
 * - The result depends only on the operands' contents, shapes and strides, on ph_tf32, and on a GPU
 *   on whether their addresses are multiples of 16. Threads and captures do not change it. */
typedef struct ph__product {
    ph_dtype dtype;
    bool transpose_a, transpose_b; /* a is stored [k, m], b is stored [n, k] */
    int64_t m, n, k, batch;
    const void *a, *b, *bias; /* bias [n], the same for every row, or NULL */
    void *c;
    int64_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c;
    bool accumulate;
    bool wide; /* c is of f32, where a and b are half types; without bias or accumulate */
} ph__product;
bool ph__op_product(ph__op *op, const ph__product *product);

/* The state of a backend for products, made by the first product. NULL: the record is set. Legal in
 * a capture: memory of cuBLASLt belongs to no graph. */
ph__products *ph__products_of(ph__backend *backend);

typedef struct ph__cublas ph__cublas;
struct ph__products {
    ph__backend *backend; /* borrowed */
    ph__cublas *cublas;   /* of a GPU */
};
#endif
