/* SPDX-License-Identifier: MIT */
/* driver/host/resource/grid.h: running the blocks of a grid. */
#ifndef PH_DRIVER_HOST_RESOURCE_GRID_H
#define PH_DRIVER_HOST_RESOURCE_GRID_H
#include "driver/host/resource/kernel.h"
#include "driver/host/stream/scratch.h"

/* Runs all blocks of a grid: on the calling thread, helped by the workers when it proves long;
 * under chaos in random pieces. */
void ph__host_run_grid(ph__host_device *device, const ph__host_kernel *kernel,
                       const ph__drv_launch *launch, ph__host_slices scratch);
#endif
