/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/decode.h: reading nodes back from the driver. */
#ifndef PH_DRIVER_CUDA_NODES_DECODE_H
#define PH_DRIVER_CUDA_NODES_DECODE_H
#include "driver/driver.h"

/* Reads the node back, if it is not decoded yet; kind: no more of it than that. CUDA's number. */
int ph__cuda_decode(ph__drv_node *node);
int ph__cuda_decode_kind(ph__drv_node *node);
#endif
