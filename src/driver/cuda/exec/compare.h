/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/compare.h: whether two graphs have the same shape. */
#ifndef PH_DRIVER_CUDA_EXEC_COMPARE_H
#define PH_DRIVER_CUDA_EXEC_COMPARE_H
#include "driver/cuda/nodes/graph.h"
#include "driver/driver.h"

/* The template's node and the new graph's of the same index. outer: the pair of child graphs
 * that they are in, of the graphs themselves. */
typedef struct ph__cuda_pair {
    ph__drv_node *mine, *theirs;
    const struct ph__cuda_pair *outer;
} ph__cuda_pair;
/* CUDA's number: 0, or 910 with *out. Reads kinds and dependencies of all nodes, of kernels and
 * copies no parameters. */
int ph__cuda_compare_graphs(ph__drv_graph *graph, ph__drv_graph *from, const ph__cuda_pair *outer,
                            ph__drv_update *out);
/* Writes why an update is not possible, and which nodes are to blame; false. */
PH_PRINTF(4, 5)
bool ph__cuda_mismatch(ph__drv_update *out, ph_update_reason reason, const ph__cuda_pair *pair,
                       const char *format, ...);
/* "node 3 (kernel add)"; reads the node. One that cannot be read has no name. */
void ph__cuda_describe_node(char out[128], ph__drv_node *node);
#endif
