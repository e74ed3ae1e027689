/* SPDX-License-Identifier: MIT */
/* tensor/products/products_learn.h: which kernel cuBLASLt launches for a plan, and where the
 * operands are in its parameters: learned from captured calls, as products_kernel.h says. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_LEARN_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_LEARN_H
#include "tensor/products/products_kernel.h"
#include "tensor/products/products_plan.h"

/* The caller owns it (ph__free). NULL: the calls have no such kernel, or a call failed; no error is
 * set. like: a product of the plan; its operands are not touched. The plan has been called before,
 * the device's context is current, and cublas->lock is held: the streams have one user. */
ph__product_kernel *ph__product_learn(ph__cublas *cublas, ph__product_plan *plan,
                                      const ph__product *like);
#endif
