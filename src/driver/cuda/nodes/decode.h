/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/decode.h: reading nodes back from the driver. */
#ifndef PH_DRIVER_CUDA_NODES_DECODE_H
#define PH_DRIVER_CUDA_NODES_DECODE_H
#include "driver/cuda/nodes/graph.h"

/* Reads the node back, if it is not decoded yet: all but what it depends on, which is read of all
 * nodes at once (list.h), in a graph under construction that too. kind: no more of it than that.
 * CUDA's number. */
int ph__cuda_decode(ph__drv_node *node);
int ph__cuda_decode_kind(ph__drv_node *node);
/* CUDA's type of a handle of the graph, with its context current. CUDA's number. */
int ph__cuda_decode_handle_type(int *out, const ph__drv_graph *graph, ph__cu_node handle);
#endif
