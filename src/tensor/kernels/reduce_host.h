/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_host.h: host forms of the kernels that reduce. */
#ifndef PH_TENSOR_KERNELS_REDUCE_HOST_H
#define PH_TENSOR_KERNELS_REDUCE_HOST_H
#include <phonograph/kernel.h>

typedef struct ph__reduce_info {
    uint8_t dtype;      /* of x: a ph_dtype */
    uint8_t result;     /* of out: a ph_dtype */
    uint8_t core, type; /* place in the table */
} ph__reduce_info;
void ph__reduce_host_rows(const ph_block_range *range, const void *args,
                          const ph__reduce_info *info);
void ph__reduce_host_columns(const ph_block_range *range, const void *args,
                             const ph__reduce_info *info);
void ph__reduce_host_join(const ph_block_range *range, const void *args,
                          const ph__reduce_info *info);
#endif
