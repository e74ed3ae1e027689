/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/entries.h: the entries of driver.def as the CUDA driver has them. */
#ifndef PH_DRIVER_CUDA_LOAD_ENTRIES_H
#define PH_DRIVER_CUDA_LOAD_ENTRIES_H
#include "driver/driver.h"

#define PH__ENTRY(type, name, parameters) type ph__cuda_##name parameters;
#include "driver/driver.def"
#endif
