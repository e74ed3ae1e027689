/* SPDX-License-Identifier: MIT */
/* driver/host/resource/memory.h: what an address is, and the end of all memory. */
#ifndef PH_DRIVER_HOST_RESOURCE_MEMORY_H
#define PH_DRIVER_HOST_RESOURCE_MEMORY_H
#include "driver/host/stream/device.h"

ph__memory_kind ph__host_memory_kind(ph__host_device *device, const void *address);
void ph__host_memory_free_all(ph__host_device *device); /* at close */
#endif
