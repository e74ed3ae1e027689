/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/list.h: the list of a graph's nodes. */
#ifndef PH_DRIVER_CUDA_NODES_LIST_H
#define PH_DRIVER_CUDA_NODES_LIST_H
#include "driver/cuda/nodes/graph.h"

/* Fills `nodes`, once, and of a graph under construction each time. CUDA's number. */
int ph__cuda_graph_list(ph__drv_graph *graph);
/* Reads what each node is and depends on, where it is not known, and no parameters. Not of a graph
 * under construction. CUDA's number. */
int ph__cuda_graph_link(ph__drv_graph *graph);
#endif
