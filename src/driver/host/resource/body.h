/* SPDX-License-Identifier: MIT */
/* driver/host/resource/body.h: work as functions of a kernel's shape, for eager commands and
 * plans alike. args: ph__drv_memcpy, ph__drv_memset, ph__drv_host. */
#ifndef PH_DRIVER_HOST_RESOURCE_BODY_H
#define PH_DRIVER_HOST_RESOURCE_BODY_H
#include <phonograph/kernel.h>

void ph__host_copy_fn(const ph_block_range *range, const void *args);
void ph__host_fill_fn(const ph_block_range *range, const void *args);
void ph__host_host_fn(const ph_block_range *range, const void *args);
void ph__host_empty_fn(const ph_block_range *range, const void *args);
#endif
