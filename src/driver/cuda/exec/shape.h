/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/shape.h: graphs that have the same shape for certain. */
#ifndef PH_DRIVER_CUDA_EXEC_SHAPE_H
#define PH_DRIVER_CUDA_EXEC_SHAPE_H
#include "driver/cuda/nodes/graph.h"

/* Whether `from` has the kinds and edges of `graph`, in the driver's order, and neither a fill nor
 * a child graph, of which more would have to be compared: no node of it is made known for this.
 * *same false: they have to be compared node by node. `graph` is linked (nodes/list.h). CUDA's
 * number. */
int ph__cuda_same_shape(bool *same, ph__drv_graph *graph, ph__drv_graph *from);
#endif
