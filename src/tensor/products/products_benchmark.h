/* SPDX-License-Identifier: MIT */
/* tensor/products/products_benchmark.h: plans of products, chosen by time. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_BENCHMARK_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_BENCHMARK_H
#include "tensor/backend/benchmark.h"
#include "tensor/products/products_plan.h"

/* The plan for a kind that had none, with the fastest of what cuBLASLt proposes. It is done with
 * p's operands; c's contents are lost, but where the product accumulates. The device's context is
 * current. NULL: the record is set. */
ph__product_plan *ph__product_plan_timed(ph__cublas *cublas, const ph__product_kind *k,
                                         const ph__product *p, ph_stream *stream);
#endif
