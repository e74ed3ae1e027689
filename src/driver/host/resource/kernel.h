/* SPDX-License-Identifier: MIT */
/* driver/host/resource/kernel.h: kernels, and the limits of a launch. */
#ifndef PH_DRIVER_HOST_RESOURCE_KERNEL_H
#define PH_DRIVER_HOST_RESOURCE_KERNEL_H
#include "driver/host/stream/device.h"

struct ph__host_kernel {
    ph__host_device *device;
    atomic_int references; /* the handle, submitted launches, nodes, the device when it is kept */
    atomic_bool kept;
    ph__host_kernel *next_kept;
    char *name;
    ph_host_kernel_fn fn;
    size_t args_size;
    bool is_inline; /* ph_kernel_source.host_inline */
};
void ph__host_kernel_retain(ph__host_kernel *kernel);
void ph__host_kernel_release(
    ph__host_kernel *kernel); /* drops the reference of retain; handles go through kernel_destroy */
void ph__host_kernels_drop_kept(ph__host_device *device); /* at close */

enum {
    PH__HOST_SHARED_BYTES = 232448 /* the most of a block, as on an H200 */
};
/* CUDA's limits: 0 or 1, with a reason. */
int ph__host_check_launch(const ph__host_kernel *kernel, const ph__drv_launch *launch);
#endif
