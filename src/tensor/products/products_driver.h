/* SPDX-License-Identifier: MIT */
/* tensor/products/products_driver.h: the driver's functions that products call beside cuBLASLt's:
 * libphonograph_nn knows the driver through libphonograph's public calls otherwise, and these say
 * nothing of kernels that other code loaded. Types: driver/cuda/load/abi_params.h. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_DRIVER_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_DRIVER_H
#include "driver/cuda/load/abi_params.h"
#include <stdbool.h>

/* X(name, version of CUDA, parameters). */
#define PH__PRODUCT_DRIVER_FUNCTIONS(X)                                                            \
    X(StreamCreateWithPriority, 5050, (ph__cu_stream * stream, unsigned flags, int priority))      \
    X(StreamDestroy, 4000, (ph__cu_stream stream))                                                 \
    X(StreamBeginCapture, 10010, (ph__cu_stream stream, int mode))                                 \
    X(StreamEndCapture, 10000, (ph__cu_stream stream, ph__cu_graph * graph))                       \
    X(StreamGetCaptureInfo, 12030,                                                                 \
      (ph__cu_stream stream, int *status, uint64_t *id, ph__cu_graph *graph,                       \
       const ph__cu_node **dependencies, const ph__cu_edge **edges, size_t *count))                \
    X(GraphDestroy, 10000, (ph__cu_graph graph))                                                   \
    X(GraphNodeGetType, 10000, (ph__cu_node node, int *type))                                      \
    X(GraphNodeGetDependencies, 12030,                                                             \
      (ph__cu_node node, ph__cu_node * dependencies, ph__cu_edge * edges, size_t * count))         \
    X(GraphKernelNodeGetParams, 12000, (ph__cu_node node, ph__cu_kernel_params * params))          \
    X(GraphKernelNodeGetAttribute, 11000,                                                          \
      (ph__cu_node node, int attribute, ph__cu_launch_value *value))                               \
    X(FuncGetParamInfo, 12040,                                                                     \
      (ph__cu_function function, size_t index, size_t * offset, size_t * bytes))                   \
    X(LaunchKernelEx, 11060,                                                                       \
      (const ph__cu_launch_config *config, ph__cu_function function, void **params, void **extra))

typedef struct ph__product_driver {
#define PH__PRODUCT_DRIVER_MEMBER(name, version, parameters) int(*name) parameters;
    PH__PRODUCT_DRIVER_FUNCTIONS(PH__PRODUCT_DRIVER_MEMBER)
#undef PH__PRODUCT_DRIVER_MEMBER
} ph__product_driver;

/* Finds them in the driver that the process has loaded. False: one is missing, and `out` is not to
 * be used. */
bool ph__product_driver_find(ph__product_driver *out);
#endif
