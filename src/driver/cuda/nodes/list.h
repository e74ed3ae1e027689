/* SPDX-License-Identifier: MIT */
/* driver/cuda/nodes/list.h: the list of a graph's nodes. */
#ifndef PH_DRIVER_CUDA_NODES_LIST_H
#define PH_DRIVER_CUDA_NODES_LIST_H
#include "driver/cuda/nodes/graph.h"

/* Fills `nodes`, once, and of a graph under construction each time. CUDA's number. */
int ph__cuda_graph_list(ph__drv_graph *graph);
/* Reads what each node is and depends on, where it is not known: all edges in one question, and
 * no parameters. Not of a graph under construction. CUDA's number. */
int ph__cuda_graph_link(ph__drv_graph *graph);

/* All edges, in the driver's order; `from` is the block to be freed. */
typedef struct ph__cuda_edge_list {
    size_t count;
    ph__cu_node *from, *to;
    ph__cu_edge *edges;
} ph__cuda_edge_list;
/* After ph__cuda_handles_read. CUDA's number. */
int ph__cuda_edges_read(ph__cuda_edge_list *out, const ph__drv_graph *graph);
/* The node of a handle of a graph that is listed, and its index: mostly that behind *last, or *last
 * again. NULL: there is none. */
ph__drv_node *ph__cuda_graph_find_near_locked(ph__drv_graph *graph, ph__cu_node handle,
                                              size_t *last);
#endif
