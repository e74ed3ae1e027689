/* SPDX-License-Identifier: MIT */
/* driver/host/stream/entries.h: the driver's entries, which device/driver.c puts into
 * ph__driver_host. */
#ifndef PH_DRIVER_HOST_STREAM_ENTRIES_H
#define PH_DRIVER_HOST_STREAM_ENTRIES_H
#include "driver/driver.h"

#define PH__ENTRY(type, name, parameters)    type ph__host_##name parameters;
#define PH__OPTIONAL(type, name, parameters) /* for handles and graphs that CUDA made */
#include "driver/driver.def"
#endif
