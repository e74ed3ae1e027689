/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/handles.h: the handles of a graph's nodes in the driver's order, and their
 * kinds: what the end of a capture looks at, before any node is made known. */
#ifndef PH_DRIVER_CUDA_NODES_HANDLES_H
#define PH_DRIVER_CUDA_NODES_HANDLES_H
#include "driver/cuda/nodes/graph.h"

/* Reads the handles, once, and of a graph under construction each time. CUDA's number. */
int ph__cuda_handles_read(ph__drv_graph *graph);
/* Reads the kinds of all, where they are not known. CUDA's number. */
int ph__cuda_handles_read_kinds(ph__drv_graph *graph);
/* The kind of the i-th, after ph__cuda_handles_read_kinds or ph__cuda_graph_list; PH_NODE_EMPTY:
 * it was not asked for. A launch of the core's fill kernel may be told as a kernel. */
ph_node_kind ph__cuda_handles_kind(const ph__drv_graph *graph, size_t i);
/* The node of the i-th, made known alone. NULL: no host memory. */
ph__drv_node *ph__cuda_handles_node_locked(ph__drv_graph *graph, size_t i);
#endif
