/* SPDX-License-Identifier: MIT */
/* tensor/products/products_choice.h: the algorithms that cuBLASLt proposes for a product. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_CHOICE_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_CHOICE_H
#include "tensor/backend/benchmark.h"
#include "tensor/products/products_plan.h"

typedef struct ph__product_proposal {
    ph__lt_algorithm algorithm;
    size_t workspace; /* bytes */
} ph__product_proposal;
typedef struct ph__product_proposals {
    int count; /* 0: cuBLASLt has no algorithm */
    ph__product_proposal of[PH__BENCHMARK_MOST];
} ph__product_proposals;

/* For a product that is described by p. others: also what comes after the first, which needs no
 * more workspace than products may have. The answer is a cublasStatus_t. */
int ph__product_propose(ph__product_proposals *out, ph__cublas *cublas, const ph__product_plan *p,
                        bool others);
#endif
