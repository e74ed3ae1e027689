/* SPDX-License-Identifier: MIT */
/* driver/host/resource/watch.h: the functions of the kernels that watch replays. */
#ifndef PH_DRIVER_HOST_RESOURCE_WATCH_H
#define PH_DRIVER_HOST_RESOURCE_WATCH_H
#include <phonograph/kernel.h>

void ph__host_breadcrumb_fn(const ph_block_range *range, const void *args);
void ph__host_finite_fn(const ph_block_range *range, const void *args);
#endif
