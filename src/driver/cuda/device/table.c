/* SPDX-License-Identifier: MIT */
/* driver/cuda/device/table.c: the CUDA driver's table. */
#include "driver/cuda/load/cuda_driver.h"

#define PUT(entry) .entry = ph__cuda_##entry,
const ph__driver ph__driver_cuda = {.name = "cuda", PH__CUDA_ENTRIES(PUT)};
