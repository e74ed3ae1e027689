/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/core.h: the kernels of the library itself, from committed PTX
 * (core_kernels.cu is their source). */
#ifndef PH_DRIVER_CUDA_LOAD_CORE_H
#define PH_DRIVER_CUDA_LOAD_CORE_H
#include "driver/cuda/load/abi_params.h"
#include "driver/driver.h"

/* count elements of 1 or 4 bytes; the parameters of a fill node hold it. */
typedef struct ph__cuda_fill_args {
    uint64_t dst;
    uint32_t value, value_size; /* value of 1-byte elements: the byte */
    uint64_t count;
} ph__cuda_fill_args;

enum {
    PH__CUDA_FILL_LIMIT = 4096
}; /* bytes up to which a captured fill is a kernel: docs/guide/cuda.md says why */
/* The functions, loaded at the first use: the fill, those which write cells, and those
 * of probe nodes. */
int ph__cuda_core_fill(ph__cu_function *out, ph__drv_device *device);
int ph__cuda_core_cells(ph__cu_function *out, ph__drv_device *device, unsigned room);
int ph__cuda_core_probe(ph__cu_function *out, ph__drv_device *device, ph__probe_kernel which);
/* When the device opens. */
void ph__cuda_core_load(ph__drv_device *device);
/* Without loading: NULL when that failed. */
ph__cu_function ph__cuda_core_fill_if_loaded(ph__drv_device *device);
void ph__cuda_fill_dimensions(unsigned *grid, unsigned *block, const ph__cuda_fill_args *args);
void ph__cuda_core_close(ph__drv_device *device);
#endif
