/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/decode.h: reading nodes back from the driver. */
#ifndef PH_DRIVER_CUDA_NODES_DECODE_H
#define PH_DRIVER_CUDA_NODES_DECODE_H
#include "driver/driver.h"

/* Reads the node back, if it is not decoded yet. CUDA's number. */
int ph__cuda_decode(ph__drv_node *node);
#endif
