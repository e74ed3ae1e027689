/* SPDX-License-Identifier: MIT */
/* bench/cuda/raw.h: the driver's own functions that the benchmarks hold the library against,
 * declared by us and found in libcuda.so.1 at run time: what a program that links the driver
 * would call. */
#ifndef BENCH_CUDA_RAW_H
#define BENCH_CUDA_RAW_H
#include <phonograph/cuda.h>
#include <stddef.h>
#include <stdint.h>

typedef struct CUctx_st *raw_context;
typedef struct CUmod_st *raw_module;
typedef struct CUfunc_st *raw_function;
typedef struct CUstream_st *raw_stream;
typedef struct CUgraph_st *raw_graph;
typedef struct CUgraphNode_st *raw_node;
typedef struct CUgraphExec_st *raw_exec;
typedef struct CUevent_st *raw_event;

/* CUgraphExecUpdateResultInfo */
typedef struct raw_update_result {
    int result;
    raw_node node, from_node;
} raw_update_result;

/* CUDA_KERNEL_NODE_PARAMS_v2 */
typedef struct raw_kernel_params {
    raw_function function;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
    struct CUkern_st *kernel;
    raw_context context;
} raw_kernel_params;

enum {
    RAW_STREAM_NON_BLOCKING = 1,
    RAW_CAPTURE_GLOBAL = 0,
    RAW_INSTANTIATE_FLAGS = 1 | 8 /* free on launch, node priorities: as the library does */
};
/* The markers of cuLaunchKernel's `extra`. */
#define RAW_PARAM_END     ((void *)0)
#define RAW_PARAM_POINTER ((void *)1)
#define RAW_PARAM_SIZE    ((void *)2)

/* X(member, exported symbol, parameters): all return a CUresult. */
#define RAW_FUNCTIONS(X)                                                                           \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                                       \
    X(primary_retain, "cuDevicePrimaryCtxRetain", (raw_context * context, int device))             \
    X(primary_release, "cuDevicePrimaryCtxRelease_v2", (int device))                               \
    X(set_current, "cuCtxSetCurrent", (raw_context context))                                       \
    X(memory_info, "cuMemGetInfo_v2", (size_t * available, size_t * total))                        \
    X(alloc_async, "cuMemAllocAsync", (uint64_t * address, size_t bytes, raw_stream stream))       \
    X(free_async, "cuMemFreeAsync", (uint64_t address, raw_stream stream))                         \
    X(fill, "cuMemsetD8Async",                                                                     \
      (uint64_t address, unsigned char value, size_t count, raw_stream stream))                    \
    X(module_load, "cuModuleLoadData", (raw_module * module, const void *image))                   \
    X(module_unload, "cuModuleUnload", (raw_module module))                                        \
    X(function, "cuModuleGetFunction",                                                             \
      (raw_function * function, raw_module module, const char *name))                              \
    X(launch, "cuLaunchKernel",                                                                    \
      (raw_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, raw_stream stream,               \
       void **params, void **extra))                                                               \
    X(stream_create, "cuStreamCreate", (raw_stream * stream, unsigned flags))                      \
    X(stream_destroy, "cuStreamDestroy_v2", (raw_stream stream))                                   \
    X(stream_synchronize, "cuStreamSynchronize", (raw_stream stream))                              \
    X(capture_begin, "cuStreamBeginCapture_v2", (raw_stream stream, int mode))                     \
    X(capture_end, "cuStreamEndCapture", (raw_stream stream, raw_graph * graph))                   \
    X(graph_nodes, "cuGraphGetNodes", (raw_graph graph, raw_node * nodes, size_t * count))         \
    X(graph_destroy, "cuGraphDestroy", (raw_graph graph))                                          \
    X(instantiate, "cuGraphInstantiateWithFlags",                                                  \
      (raw_exec * exec, raw_graph graph, unsigned long long flags))                                \
    X(upload, "cuGraphUpload", (raw_exec exec, raw_stream stream))                                 \
    X(graph_launch, "cuGraphLaunch", (raw_exec exec, raw_stream stream))                           \
    X(exec_set_kernel, "cuGraphExecKernelNodeSetParams_v2",                                        \
      (raw_exec exec, raw_node node, const raw_kernel_params *params))                             \
    X(exec_update, "cuGraphExecUpdate_v2",                                                         \
      (raw_exec exec, raw_graph graph, raw_update_result * result))                                \
    X(event_create, "cuEventCreate", (raw_event * event, unsigned flags))                          \
    X(event_destroy, "cuEventDestroy_v2", (raw_event event))                                       \
    X(event_record, "cuEventRecord", (raw_event event, raw_stream stream))                         \
    X(event_synchronize, "cuEventSynchronize", (raw_event event))                                  \
    X(event_elapsed, "cuEventElapsedTime", (float *milliseconds, raw_event from, raw_event to))    \
    X(exec_destroy, "cuGraphExecDestroy", (raw_exec exec))

typedef struct raw_functions {
#define RAW_MEMBER(member, symbol, parameters) int(*member) parameters;
    RAW_FUNCTIONS(RAW_MEMBER)
#undef RAW_MEMBER
} raw_functions;
extern raw_functions raw;

/* Fills `raw`. NULL, or why it could not. */
const char *raw_load(void);
/* Ends the program, with words, unless the result is 0. */
void raw_check(int result, const char *call);
#define RAW_OK(call) raw_check((call), #call)
#endif
