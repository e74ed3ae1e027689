/* SPDX-License-Identifier: MIT */
/* tensor/products/products_order.h: the order in which the operands of a product lie in memory. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_ORDER_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_ORDER_H
#include "tensor/products/products.h"

/* Where a GPU multiplies operands in another order so much faster that a transposed copy pays,
 * one is made, and *p reads it: scratch of op. By sizes, dtype and device alone, so that each call
 * and each capture does the same. False: the tape has failed. */
bool ph__product_order(ph__op *op, ph__product *p);
#endif
