/* SPDX-License-Identifier: MIT */
/* graph/object/kernels.h: the kernels that a graph keeps alive. */
#ifndef PH_GRAPH_OBJECT_KERNELS_H
#define PH_GRAPH_OBJECT_KERNELS_H
#include "record/record.h"

/* Retains the kernels of the record and makes node_kernels anew. */
ph_status ph__graph_acquire_kernels(ph_graph *graph, const ph_record *record, const char *call);
/* Retains those that were launched in the capture, which has ended; false: no host memory. */
bool ph__graph_keep_captured(ph_graph *graph);
/* Closes the capture's list of kernels, and retains those that were listed since keep_captured. One
 * for which there is no host memory has its code kept loaded. */
void ph__graph_keep_late(ph_graph *graph);
/* Makes room for so many more kernels. */
bool ph__graph_reserve_kernels(ph_graph *graph, size_t count);
void ph__graph_add_kernel(ph_graph *graph, ph_kernel *kernel); /* room was reserved */
void ph__graph_drop_kernels(ph_graph *graph);
#endif
