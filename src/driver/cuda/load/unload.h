/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/unload.h: unloading the code of kernels.
 *
 * CUDA does not promise that cuModuleUnload waits for launches in flight, so a destroyed
 * kernel's code stays loaded until the device was idle once after that (ph__cuda_synchronize),
 * and a kept one's until the device closes. */
#ifndef PH_DRIVER_CUDA_LOAD_UNLOAD_H
#define PH_DRIVER_CUDA_LOAD_UNLOAD_H
#include "driver/cuda/load/kernel.h"

int ph__cuda_kernel_register(ph__drv_kernel *kernel); /* for kernel_of; 2 */
/* of one that is not registered and has no code */
void ph__cuda_kernel_free(ph__drv_kernel *kernel);
/* Of one that is not registered, so nothing ever ran it: its code goes at once, or with that of
 * destroyed ones while a capture is open, as tools that watch unloading (memcheck) do then what
 * invalidates a capture. Under the device's context, in relaxed mode. */
void ph__cuda_kernel_discard(ph__drv_kernel *kernel);
/* The kernel behind a function (the newest, where it was wrapped twice) among the first `before`
 * of the device, or NULL. count: how many there ever were. */
ph__drv_kernel *ph__cuda_kernel_of(ph__drv_device *device, ph__cu_function function,
                                   uint64_t before);
uint64_t ph__cuda_kernel_count(ph__drv_device *device);
/* Waits for all work of the context, as cuCtxSynchronize, and then unloads the kernels that had
 * been destroyed before and are not kept. */
int ph__cuda_synchronize(ph__drv_device *device);
/* When the device closes, idle: unloads what is left. */
void ph__cuda_kernels_close(ph__drv_device *device);
#endif
