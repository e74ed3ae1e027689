/* SPDX-License-Identifier: MIT */
/* tensor/products/products_kernel.h: the kernel that cuBLASLt launches for a plan, launched without
 * cuBLASLt, which takes less of the host's time (docs/measurements/callables.md).
 *
 * Calls of a plan differ in the addresses of the operands alone. So their kernel's parameters
 * differ in words that are such an address plus a constant, and in nothing else. This is checked
 * for each plan that is in use, at a captured product (PH__PRODUCT_USES in products_plan.h), and
 * trusted from then on (products_learn.c):
 * - Seven calls with made-up addresses, and one with the product's own, are captured on two streams
 *   of the library's own. Nothing of them runs.
 * - Each must be one kernel node behind a full edge. Functions, sizes, attributes and parameters
 *   must be equal, but for such words.
 * - The made-up addresses are of 47 bits, and have the least alignment of the plan or at least
 *   512, each pair of operands in each mixture; once a and b are the same.
 * - The kernel, launched with the addresses of the last two calls, must become their nodes again.
 *
 * It happens in captures alone: beside a capture nobody may synchronize the device, which a program
 * without captures has to be able to do at any moment.
 *
 * Otherwise cuBLASLt is called, as it is for plans with a workspace, and everywhere where
 * PH_PRODUCTS is "cublaslt". */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_KERNEL_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_KERNEL_H
#include "tensor/products/products.h"
#include "tensor/products/products_driver.h"

enum {
    PH__PRODUCT_OPERANDS = 4, /* a, b, c, bias */
    PH__PRODUCT_BIAS_OPERAND = 3,
    PH__PRODUCT_PARAMETERS = 64,
    PH__PRODUCT_ADDRESSES = 32,
    PH__PRODUCT_BYTES = 4096, /* of all parameters */
    PH__PRODUCT_ATTRIBUTES = 3
};

typedef struct ph__product_operands {
    uint64_t at[PH__PRODUCT_OPERANDS]; /* 0: no bias */
} ph__product_operands;

/* A word of 8 bytes in the parameters. */
typedef struct ph__product_address {
    uint32_t offset; /* bytes, a multiple of 4 */
    uint32_t operand;
    uint64_t added; /* to the operand's address, modulo 2^64 */
} ph__product_address;

typedef struct ph__product_kernel {
    ph__cu_function function;
    unsigned grid[3], block[3], shared_bytes;
    unsigned attribute_count;
    bool in_buffer; /* its arguments go to the driver as one buffer (`extra`) */
    ph__cu_launch_attribute attributes[PH__PRODUCT_ATTRIBUTES];
    size_t parameter_count, address_count, bytes;
    uint32_t offsets[PH__PRODUCT_PARAMETERS];
    ph__product_address addresses[PH__PRODUCT_ADDRESSES];
    unsigned char arguments[]; /* as of a captured call */
} ph__product_kernel;

ph__product_operands ph__product_operands_of(const ph__product *p);
/* The answer is a CUresult. The device's context is current, or the stream is an explicit one. */
int ph__product_kernel_launch(const ph__product_kernel *kernel, const ph__product_driver *driver,
                              const ph__product_operands *operands, struct CUstream_st *stream);
#endif
