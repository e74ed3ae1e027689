/* SPDX-License-Identifier: MIT */
/* tensor/products/products_plain.h: the plain product of one tile, and the packing that it
 * shares with products of f16 and bf16. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_PLAIN_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_PLAIN_H
#include <phonograph/tensor.h>

/* A tile is at most this large, and k is gone through in pieces of PH__PLAIN_K. */
enum {
    PH__PLAIN_TILE = 128,
    PH__PLAIN_K = 128,
    PH__PLAIN_ROWS = 6
};

/* Element (i, j) is at[i * row + j * column]; of any floating dtype. */
typedef struct ph__view {
    const void *at;
    ph_dtype dtype;
    int64_t row, column;
} ph__view;

/* Scratch of ph__plain_product, in bytes. */
size_t ph__plain_scratch(ph_dtype compute);
/* c += a * b for a [m, k], b [k, n], c of rows ldc apart, of the dtype to compute in: f64 for
 * f64, else f32. m and n at most PH__PLAIN_TILE. */
void ph__plain_product(const ph__view *a, const ph__view *b, int64_t m, int64_t n, int64_t k,
                       void *c, int64_t ldc, void *scratch);

/* out[i * ld + j] = x(i, j) in f32, from f16 and bf16. */
void ph__widen(float *out, int64_t ld, const ph__view *x, int64_t rows, int64_t columns);
/* The other way, into row-major elements: to[i * ld + j]. */
void ph__narrow(void *to, ph_dtype dtype, int64_t ld, const float *from, int64_t from_ld,
                int64_t rows, int64_t columns);
#endif
