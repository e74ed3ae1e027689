/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/fills.h: small memset nodes as launches of the core's fill kernel. */
#ifndef PH_DRIVER_CUDA_NODES_FILLS_H
#define PH_DRIVER_CUDA_NODES_FILLS_H
#include "driver/cuda/load/abi_params.h"
#include "driver/driver.h"

/* For an update: mine is a launch of the fill kernel, theirs a memset node that could be one. */
bool ph__cuda_fill_accepts_clone(const ph__drv_node *mine, const ph__drv_node *theirs);
/* A clone of the graph in which each memset node is a kernel whose counterpart of the same index
 * in `like` is one. *out: NULL where there are none; else the caller destroys it. CUDA's number. */
int ph__cuda_graph_lowered_clone(ph__cu_graph *out, const ph__drv_graph *graph,
                                 const ph__drv_graph *like);
#endif
