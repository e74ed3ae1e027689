/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/layouts.h: the places of the parameters of kernels that other code loaded. */
#ifndef PH_DRIVER_CUDA_LOAD_LAYOUTS_H
#define PH_DRIVER_CUDA_LOAD_LAYOUTS_H
#include "driver/cuda/load/device.h"

/* A kernel that was read back: what the driver calls it, and the places of its parameters in one
 * flat buffer. */
typedef struct ph__cuda_layout {
    atomic_uint holders;
    ph__cu_function function; /* NULL: a kernel that belongs to no context */
    ph__cu_kernel kernel;
    ph__cu_context context;
    const char *name;    /* behind the last of `at` */
    size_t count, bytes; /* of parameters; where the last one ends */
    struct ph__cuda_param {
        size_t offset, bytes;
    } at[];
} ph__cuda_layout;

/* The layout of the kernel that the parameters of a node name, retained. The driver is asked once
 * for each kernel of the device, and then no more than whether it is still that one: other code
 * may unload it, and load another to the same handle. CUDA's number, which is the driver's where
 * the kernel's module has gone and the driver says so. */
int ph__cuda_layout_acquire(ph__cuda_layout **out, ph__drv_device *device,
                            const ph__cu_kernel_params *params);
void ph__cuda_layout_release(ph__cuda_layout *layout);
/* The module of the function is about to go. */
void ph__cuda_layout_forget(ph__drv_device *device, ph__cu_function function);
/* Releases all layouts of a map, and the map. */
void ph__cuda_layouts_release(ph__map *layouts);
#endif
