/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_host.h: host forms of the element-wise kernels: what the kernels of a
 * def share. */
#ifndef PH_TENSOR_KERNELS_ELEMENTWISE_HOST_H
#define PH_TENSOR_KERNELS_ELEMENTWISE_HOST_H
#include "tensor/kernels/elementwise_cores.h"
#include <phonograph/kernel.h>

typedef struct ph__elementwise_info {
    uint8_t arity;
    uint8_t dtype[4]; /* of out, x, y, z: a ph_dtype, or PH__ELEMENTWISE_RAW16 */
    uint8_t core;
    uint8_t type;     /* column of the table: a ph__core_type */
    bool direct;      /* the core reads and writes the tensors' own memory where they are dense */
    uint8_t out_type; /* PH_DTYPE_F64 where the core gives f64 for an f16 or bf16 result; else 0 */
} ph__elementwise_info;
void ph__elementwise_host_flat(const ph_block_range *range, const void *args,
                               const ph__elementwise_info *info);
void ph__elementwise_host_strided(const ph_block_range *range, const void *args,
                                  const ph__elementwise_info *info);
#endif
