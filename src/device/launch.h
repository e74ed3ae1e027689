/* SPDX-License-Identifier: MIT */
/* device/launch.h: launches of kernels. */
#ifndef PH_DEVICE_LAUNCH_H
#define PH_DEVICE_LAUNCH_H
#include "device/handles/kernel.h"

/* Checks CUDA's limits, fills zeros with ones. */
ph_status ph__launch_prepare(ph__drv_launch *out, const ph_kernel *kernel,
                             const ph_launch_config *config, const void *args, size_t args_size,
                             const char *call);
#endif
