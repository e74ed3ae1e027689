/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/positions.h: positions of a capture (capture/position.c), once it is over. */
#ifndef PH_DRIVER_CUDA_NODES_POSITIONS_H
#define PH_DRIVER_CUDA_NODES_POSITIONS_H
#include "driver/cuda/nodes/graph.h"

/* Before handles of nodes change, by which positions are known until then. CUDA's number. */
int ph__cuda_positions_resolve(ph__drv_graph *graph);
#endif
