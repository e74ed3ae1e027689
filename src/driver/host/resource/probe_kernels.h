/* SPDX-License-Identifier: MIT */
/* driver/host/resource/probe_kernels.h: the functions of the kernels of probe nodes. */
#ifndef PH_DRIVER_HOST_RESOURCE_PROBE_KERNELS_H
#define PH_DRIVER_HOST_RESOURCE_PROBE_KERNELS_H
#include <phonograph/kernel.h>

void ph__host_breadcrumb_fn(const ph_block_range *range, const void *args);
void ph__host_finite_fn(const ph_block_range *range, const void *args);
#endif
