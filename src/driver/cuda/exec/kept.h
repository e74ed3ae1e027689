/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/kept.h: what an executable keeps of the kernels that updates brought. */
#ifndef PH_DRIVER_CUDA_EXEC_KEPT_H
#define PH_DRIVER_CUDA_EXEC_KEPT_H
#include "driver/cuda/nodes/graph.h"

/* Room to remember which kernels the nodes run from now on, where they are not the template's;
 * false: no host memory. */
bool ph__cuda_exec_reserve_kernels(ph__drv_exec *exec, const ph__drv_graph *from);
/* The layouts that the nodes need from now on, where they are not the template's; *out: NULL
 * when there are none. As kernels may be gone with the graph they came from, so are its layouts:
 * these are retained. false: no host memory; free what is there. */
bool ph__cuda_layouts_copy(ph__cuda_layout ***out, const ph__drv_graph *graph,
                           const ph__drv_graph *from);
void ph__cuda_layouts_free(ph__cuda_layout **layouts, size_t count); /* takes NULL */
/* Frees the layouts that the executable has. */
void ph__cuda_exec_drop_layouts(ph__drv_exec *exec);
#endif
