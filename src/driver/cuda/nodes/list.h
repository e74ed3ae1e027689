/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/list.h: the list of a graph's nodes. */
#ifndef PH_DRIVER_CUDA_NODES_LIST_H
#define PH_DRIVER_CUDA_NODES_LIST_H
#include "driver/cuda/nodes/graph.h"

/* Fills `nodes`; CUDA's number. */
int ph__cuda_graph_list(ph__drv_graph *graph);
#endif
