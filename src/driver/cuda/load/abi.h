/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/abi.h: what this driver uses of NVIDIA's driver interface, declared by us:
 * handles, numbers and the layout of structs, so that no toolkit is needed to build.
 * tests/headers/cuda_abi.c holds it against the toolkit's own header where that is found.
 * Handles have the tags of the toolkit's, so that they are the same types; all else has names of
 * its own. */
#ifndef PH_CUDA_ABI_H
#define PH_CUDA_ABI_H
#include <stddef.h>
#include <stdint.h>

typedef int ph__cu_device; /* CUdevice */
typedef uint64_t ph__cu_pointer;
typedef uint64_t ph__cu_memory; /* CUmemGenericAllocationHandle */
typedef struct CUctx_st *ph__cu_context;
typedef struct CUmod_st *ph__cu_module;
typedef struct CUfunc_st *ph__cu_function;
typedef struct CUkern_st *ph__cu_kernel;
typedef struct CUstream_st *ph__cu_stream;
typedef struct CUevent_st *ph__cu_event;
typedef struct CUgraph_st *ph__cu_graph;
typedef struct CUgraphNode_st *ph__cu_node;
typedef struct CUgraphExec_st *ph__cu_exec;
typedef struct CUlogsCallbackEntry_st *ph__cu_logs;
typedef void (*ph__cu_host_fn)(void *user);
typedef void (*ph__cu_log_fn)(void *user, int level, char *message, size_t length);
/* cuGetProcAddress_v2, the one function that is found by name; found: why there is none, not
 * read. */
typedef int (*ph__cu_get_proc_fn)(const char *symbol, void **address, int version, uint64_t flags,
                                  int *found);

/* Numbers that only cuInit gives. */
enum {
    PH__CU_R_NOT_INITIALIZED = 3,
    PH__CU_R_STUB_LIBRARY = 34,
    PH__CU_R_OPERATING_SYSTEM = 304,
    PH__CU_R_SYSTEM_NOT_READY = 802,
    PH__CU_R_SYSTEM_DRIVER_MISMATCH = 803,
    PH__CU_R_COMPAT_NOT_SUPPORTED = 804,
    PH__CU_R_UNKNOWN = 999
};

enum {
    PH__CU_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    PH__CU_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    PH__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    PH__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    PH__CU_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    PH__CU_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102
};
enum {
    PH__CU_POINTER_CONTEXT = 1,
    PH__CU_POINTER_MEMORY_TYPE = 2,
    PH__CU_POINTER_BUFFER_ID = 7,
    PH__CU_POINTER_IS_MANAGED = 8,
    PH__CU_POINTER_DEVICE_ORDINAL = 9,
    PH__CU_POINTER_RANGE_START_ADDR = 11,
    PH__CU_POINTER_RANGE_SIZE = 12
};
enum {
    PH__CU_MEMORY_HOST = 1,
    PH__CU_MEMORY_DEVICE = 2,
    PH__CU_MEMORY_ARRAY = 3,
    PH__CU_MEMORY_UNIFIED = 4
};
enum {
    PH__CU_MEM_OP_WAIT_VALUE_32 = 1,
    PH__CU_MEM_OP_WRITE_VALUE_32 = 2,
    PH__CU_MEM_OP_WAIT_VALUE_64 = 4,
    PH__CU_MEM_OP_WRITE_VALUE_64 = 5
};
enum {
    PH__CU_FUNC_SHARED_SIZE_BYTES = 1,
    PH__CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};
enum {
    PH__CU_JIT_ERROR_LOG_BUFFER = 5,
    PH__CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6
};
enum {
    PH__CU_GET_PROC_LEGACY_STREAM = 1
};
enum {
    PH__CU_CAPTURE_STATUS_NONE = 0,
    PH__CU_CAPTURE_STATUS_ACTIVE = 1,
    PH__CU_CAPTURE_STATUS_INVALIDATED = 2
};
enum {
    PH__CU_ADD_CAPTURE_DEPENDENCIES = 0,
    PH__CU_SET_CAPTURE_DEPENDENCIES = 1
};
enum {
    PH__CU_CAPTURE_MODE_RELAXED = 2,
    PH__CU_STREAM_NON_BLOCKING = 1
};
enum {
    PH__CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW = 1,
    PH__CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    PH__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    PH__CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY = 5,
    PH__CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
    PH__CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,
    PH__CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAINS = 9,
    PH__CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN = 10,
    PH__CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION = 11,
    PH__CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_CARVEOUT = 14
};
enum {
    PH__CU_DEPENDENCY_TYPE_PROGRAMMATIC = 1
};
enum {
    PH__CU_ALLOCATION_TYPE_PINNED = 1,
    PH__CU_LOCATION_TYPE_DEVICE = 1,
    PH__CU_ACCESS_READWRITE = 3,
    PH__CU_GRANULARITY_MINIMUM = 0
};
enum {
    PH__CU_HOST_ALLOC_PORTABLE = 1
};
enum {
    PH__CU_LOG_ERROR = 0
};
/* The markers of cuLaunchKernel's `extra`. */
#define PH__CU_LAUNCH_PARAM_END            ((void *)0)
#define PH__CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define PH__CU_LAUNCH_PARAM_BUFFER_SIZE    ((void *)2)
/* The names of the default streams: legacy (as NULL), and one for each thread. */
#define PH__CU_STREAM_LEGACY     ((ph__cu_stream)1)
#define PH__CU_STREAM_PER_THREAD ((ph__cu_stream)2)
#endif
