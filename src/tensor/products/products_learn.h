/* SPDX-License-Identifier: MIT */
/* tensor/products/products_learn.h: which kernel cuBLASLt launches for a plan, and where the
 * operands are in its parameters: learned from captured calls, as products_kernel.h says. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_LEARN_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_LEARN_H
#include "tensor/products/products_kernel.h"
#include "tensor/products/products_plan.h"

/* The caller owns it (ph__free). NULL: *differ says whether the calls differ in more than
 * addresses; otherwise something failed, and another try may succeed. No error is set.
 * - like: a product of the plan; its operands are addressed, and not touched.
 * - The plan has been called before, the device's context is current, and cublas->learning_lock is
 *   held: the two streams have one user.
 * - Captures are open meanwhile, beside which nobody may synchronize the device: so the caller is
 *   in a capture of its own. */
ph__product_kernel *ph__product_learn(bool *differ, ph__cublas *cublas, ph__product_plan *plan,
                                      const ph__product *like);

/* The streams of these captures. False: there are none, and nothing can be learned. Under the
 * device's context, in relaxed mode. */
bool ph__product_streams_create(ph__cublas *cublas);
void ph__product_streams_destroy(ph__cublas *cublas);
#endif
