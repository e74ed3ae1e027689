/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/transfers.h: reading copies and fills back from the driver. */
#ifndef PH_DRIVER_CUDA_NODES_TRANSFERS_H
#define PH_DRIVER_CUDA_NODES_TRANSFERS_H
#include "driver/driver.h"

/* CUDA's number. */
int ph__cuda_decode_copy(ph__drv_node *out);
int ph__cuda_decode_fill(ph__drv_node *out);
#endif
