/* SPDX-License-Identifier: MIT */
/* tensor/cudnn/cudnn_graph.h: describes a graph of operations to cuDNN: tensors of four
 * dimensions, and operations between them.
 *
 * After a first failure each function does nothing: graph->result has its number. A descriptor
 * stays until ph__cudnn_graph_free. */
#ifndef PH_TENSOR_CUDNN_CUDNN_GRAPH_H
#define PH_TENSOR_CUDNN_CUDNN_GRAPH_H
#include "tensor/backend/benchmark.h"
#include "tensor/cudnn/cudnn_abi.h"
#include <stdbool.h>

enum {
    PH__CUDNN_DIMS = 4,
    PH__CUDNN_MOST_DESCRIPTORS = 192,
    PH__CUDNN_MOST_OPERATIONS = 32
};
typedef struct ph__cudnn_graph {
    void *made[PH__CUDNN_MOST_DESCRIPTORS], *operation[PH__CUDNN_MOST_OPERATIONS];
    int made_count, operations;
    int64_t ids; /* of tensors that have no memory */
    int result;  /* cudnnStatus_t */
} ph__cudnn_graph;

/* A part of the graph: nothing in it is owned. */
typedef struct ph__cudnn_tensor {
    void *descriptor;
    int dtype; /* PH__CUDNN_F32 .. */
    int64_t dim[PH__CUDNN_DIMS], stride[PH__CUDNN_DIMS];
} ph__cudnn_tensor;

/* Memory that a call names by id, at an address that is a multiple of 16. Strides in elements;
 * NULL: contiguous. */
ph__cudnn_tensor ph__cudnn_memory(ph__cudnn_graph *graph, int64_t id, int dtype, const int64_t *dim,
                                  const int64_t *stride);
/* A number of f32 on the host, which is read when the call is submitted. */
ph__cudnn_tensor ph__cudnn_number(ph__cudnn_graph *graph, int64_t id);
/* Between two operations: it has no memory. Strides as above. */
ph__cudnn_tensor ph__cudnn_between(ph__cudnn_graph *graph, int dtype, const int64_t *dim,
                                   const int64_t *stride);

/* y = x (mode) b, element by element, b with dimensions of 1 that are repeated. b NULL: of x alone.
 * compute: the type to do it in. */
void ph__cudnn_pointwise(ph__cudnn_graph *graph, int mode, int compute, const ph__cudnn_tensor *x,
                         const ph__cudnn_tensor *b, const ph__cudnn_tensor *y);
/* y = the number of x's element along axis. */
void ph__cudnn_index(ph__cudnn_graph *graph, int64_t axis, const ph__cudnn_tensor *x,
                     const ph__cudnn_tensor *y);
/* y = chosen ? x : b. */
void ph__cudnn_select(ph__cudnn_graph *graph, const ph__cudnn_tensor *x, const ph__cudnn_tensor *b,
                      const ph__cudnn_tensor *chosen, const ph__cudnn_tensor *y);
/* y = a b, of the last two dimensions, summed in f32. Where b has fewer heads, each is shared by
 * neighbours of a's. */
void ph__cudnn_matmul(ph__cudnn_graph *graph, const ph__cudnn_tensor *a, const ph__cudnn_tensor *b,
                      const ph__cudnn_tensor *y);
/* y = the sum or the maximum of x over the dimensions that have fewer elements in y. */
void ph__cudnn_reduce(ph__cudnn_graph *graph, int how, const ph__cudnn_tensor *x,
                      const ph__cudnn_tensor *y);
/* y = x with its last two dimensions exchanged: y has the dimensions and strides. */
void ph__cudnn_transpose(ph__cudnn_graph *graph, const ph__cudnn_tensor *x,
                         const ph__cudnn_tensor *y);

/* A proposal of cuDNN's for the graph that builds. A search goes in its order, but that the
 * preferred one comes first, where it is as exact and repeats; and leaves out all that needs more
 * than `most` bytes of workspace. */
typedef struct ph__cudnn_built {
    void *plan;
    int64_t workspace; /* bytes */
} ph__cudnn_built;
typedef struct ph__cudnn_search {
    int64_t most;
    int wanted;     /* of plans: at most PH__BENCHMARK_LIMIT */
    int preferred;  /* a proposal's number in cuDNN's order */
    bool any_order; /* plans after the first need not repeat to the bit */
} ph__cudnn_search;
/* How many there are: those after the first are no less exact. 0: the graph may have failed. */
int ph__cudnn_graph_plans(ph__cudnn_built *out, ph__cudnn_graph *graph, void *handle,
                          const ph__cudnn_search *search);
void ph__cudnn_graph_drop(ph__cudnn_graph *graph, void *descriptor); /* before graph_free */
void ph__cudnn_graph_free(ph__cudnn_graph *graph);
#endif
