/* SPDX-License-Identifier: MIT */
/* driver/cuda/device/table.c: the CUDA driver's table. */
#include "driver/callback.h"
#include "driver/cuda/load/entries.h"

#define PH__TABLE_OWN(name) ph__cuda_##name
#include "driver/table.def"

const ph__driver ph__driver_cuda = {
    .name = "cuda",
#define PH__FALLIBLE(name, parameters, arguments) .name = ph__cleared_##name,
#define PH__ENTRY(type, name, parameters)         .name = ph__cuda_##name,
#include "driver/driver.def"
};
