/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/exec.h: executables. */
#ifndef PH_DRIVER_CUDA_EXEC_EXEC_H
#define PH_DRIVER_CUDA_EXEC_EXEC_H
#include "driver/cuda/nodes/graph.h"
#include "driver/driver.h"

struct ph__drv_exec {
    ph__drv_device *device;
    ph__cu_exec handle;
    bool deferred;        /* not uploaded yet */
    bool viewed;          /* made, launched and destroyed by other code */
    ph__drv_graph *graph; /* its template */
    ph__drv_memory memory;
    /* by index of the template's node: what each runs since an update brought others; NULL: the
     * template's */
    ph__drv_kernel **kernels;
    ph__cuda_layout **layouts; /* likewise, retained: of kernels that this library did not load */
    /* the graph of the last update, of which not all was read: borrowed, and asked instead of
     * both; NULL: there is none */
    ph__drv_graph *updated;
    uint64_t uploads;
    /* NULL, or `handle` is of a copy of the template, and these are its nodes
     * (profile_events.c) */
    ph__cu_node *copies;
};
/* The driver's handle of a node of the template, for calls on the executable. */
static inline ph__cu_node ph__cuda_exec_node(const ph__drv_exec *exec, const ph__drv_node *node)
{
    return exec->copies ? exec->copies[node->index] : node->handle;
}
/* Uploads an executable that was not uploaded yet, before anything of it is changed: one that is
 * changed first replays slower for good (docs/guide/cuda.md). CUDA's number. */
int ph__cuda_exec_upload_first(ph__drv_exec *exec);
#endif
