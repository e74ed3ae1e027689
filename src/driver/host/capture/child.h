/* SPDX-License-Identifier: MIT */
/* driver/host/capture/child.h: copies of graphs. */
#ifndef PH_DRIVER_HOST_CAPTURE_CHILD_H
#define PH_DRIVER_HOST_CAPTURE_CHILD_H
#include "driver/host/capture/graph.h"

/* A copy of a finished graph and of the bodies in it. NULL when out of memory. */
ph__host_graph *ph__host_graph_clone(const ph__host_graph *graph);
#endif
