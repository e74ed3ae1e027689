/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/kernel.h: kernels: their code, what their parameters need, and shared memory. */
#ifndef PH_DRIVER_CUDA_LOAD_KERNEL_H
#define PH_DRIVER_CUDA_LOAD_KERNEL_H
#include "driver/cuda/load/abi_params.h"
#include "driver/driver.h"
#include <stdatomic.h>

enum {
    PH__CUDA_LISTED_PARAMS = 16
};
struct ph__drv_kernel {
    ph__drv_device *device;
    ph__cu_module module; /* NULL: the user's function */
    ph__cu_function function;
    char *name;
    size_t args_size; /* of the argument struct, padding included */
    /* and where each begins in the struct, up to a number: changing a node by a list is cheaper */
    size_t param_count;
    uint16_t offsets[PH__CUDA_LISTED_PARAMS];
    size_t args_end;      /* where the last parameter ends: what a launch must name exactly */
    size_t shared_static; /* shared memory that its own variables take */
    /* dynamic shared memory that the function is set up for; at first what 48 KiB leave */
    atomic_size_t shared_set;
    atomic_bool keep;
    uint64_t number;      /* of the device's kernels, by age */
    ph__drv_kernel *next; /* an older one of the same function, or the next retired one */
};

/* Makes room for a launch with that much dynamic shared memory; before every launch. Legal in a
 * capture. 1: more than the GPU has. */
int ph__cuda_kernel_prepare(ph__drv_kernel *kernel, size_t shared_bytes);
#endif
