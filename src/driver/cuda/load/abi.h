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
    PH__CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
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

typedef struct ph__cu_location { /* CUmemLocation */
    int type, id;
} ph__cu_location;
typedef struct ph__cu_allocation { /* CUmemAllocationProp */
    int type, handle_types;
    ph__cu_location location;
    void *windows;
    struct {
        unsigned char compression, rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} ph__cu_allocation;
typedef struct ph__cu_access { /* CUmemAccessDesc */
    ph__cu_location location;
    int flags;
} ph__cu_access;

typedef struct ph__cu_kernel_params { /* CUDA_KERNEL_NODE_PARAMS_v2 */
    ph__cu_function function;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
    ph__cu_kernel kernel;
    ph__cu_context context;
} ph__cu_kernel_params;
typedef struct ph__cu_copy_params { /* CUDA_MEMCPY3D_v2 */
    size_t src_x_bytes, src_y, src_z, src_lod;
    int src_type;
    const void *src_host;
    ph__cu_pointer src_device;
    void *src_array, *reserved0;
    size_t src_pitch, src_height;
    size_t dst_x_bytes, dst_y, dst_z, dst_lod;
    int dst_type;
    void *dst_host;
    ph__cu_pointer dst_device;
    void *dst_array, *reserved1;
    size_t dst_pitch, dst_height;
    size_t width_bytes, height, depth;
} ph__cu_copy_params;
typedef struct ph__cu_fill_params { /* CUDA_MEMSET_NODE_PARAMS_v1 */
    ph__cu_pointer dst;
    size_t pitch;
    unsigned value, element_bytes;
    size_t width, height; /* elements, rows */
} ph__cu_fill_params;
typedef struct ph__cu_host_params { /* CUDA_HOST_NODE_PARAMS_v1 */
    ph__cu_host_fn fn;
    void *user;
} ph__cu_host_params;
typedef struct ph__cu_alloc_params { /* CUDA_MEM_ALLOC_NODE_PARAMS_v1 */
    struct {
        int type, handle_types;
        ph__cu_location location;
        void *windows;
        size_t max_bytes;
        unsigned short usage;
        unsigned char reserved[54];
    } pool;
    const ph__cu_access *access;
    size_t access_count, bytes;
    ph__cu_pointer address;
} ph__cu_alloc_params;
typedef union ph__cu_mem_op { /* CUstreamBatchMemOpParams, of the operations that have an address */
    int operation;
    struct {
        int operation;
        ph__cu_pointer address;
        uint64_t value; /* or its first half */
        unsigned flags;
        ph__cu_pointer alias;
    } at;
    uint64_t room[6];
} ph__cu_mem_op;
typedef struct ph__cu_mem_ops { /* CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 */
    ph__cu_context context;
    unsigned count;
    ph__cu_mem_op *ops;
    unsigned flags;
} ph__cu_mem_ops;
typedef struct ph__cu_edge { /* CUgraphEdgeData */
    unsigned char from_port, to_port, type, reserved[5];
} ph__cu_edge;
typedef struct ph__cu_instantiate_params { /* CUDA_GRAPH_INSTANTIATE_PARAMS */
    uint64_t flags;
    ph__cu_stream upload_stream;
    ph__cu_node failed;
    int result;
} ph__cu_instantiate_params;
typedef struct ph__cu_update_result { /* CUgraphExecUpdateResultInfo */
    int result;
    ph__cu_node node, from_node;
} ph__cu_update_result;
typedef struct ph__cu_launch_attribute { /* CUlaunchAttribute */
    int id;
    char padding[4];
    union {
        char bytes[64];
        int programmatic_serialization_allowed;
        uint64_t alignment;
    } value;
} ph__cu_launch_attribute;
typedef struct ph__cu_launch_config { /* CUlaunchConfig */
    unsigned grid[3], block[3], shared_bytes;
    ph__cu_stream stream;
    ph__cu_launch_attribute *attributes;
    unsigned attribute_count;
} ph__cu_launch_config;

/* ---- CUPTI (cuda_cupti.c) ---- */
typedef struct CUpti_Subscriber_st *ph__cupti_subscriber;
typedef void (*ph__cupti_callback)(void *user, int domain, uint32_t function_id, const void *call);
enum {
    PH__CUPTI_EXIT = 1,
    PH__CUPTI_DRIVER_API = 1,
    PH__CUPTI_R_OTHER_SUBSCRIBER = 39
};
typedef struct ph__cupti_call { /* CUpti_CallbackData */
    int site;
    const char *function;
    const void *params;
    void *result; /* int, of a call of the driver's */
    const char *symbol;
    ph__cu_context context;
    uint32_t context_id;
    uint64_t *correlation;
    uint32_t correlation_id;
} ph__cupti_call;

/* ---- CUPTI's activity records (cuda_activity.c) ---- how those begin that are read: newer
 * versions of them, for which there is a number at the end of the name, have more behind. */
enum {
    PH__CUPTI_MEMCPY = 1,
    PH__CUPTI_MEMSET = 2,
    PH__CUPTI_CONCURRENT_KERNEL = 10,
    PH__CUPTI_FLUSH_FORCED = 1,
    PH__CUPTI_R_MAX_LIMIT_REACHED = 12
};
typedef struct ph__cupti_record { /* CUpti_Activity */
    int kind;
} ph__cupti_record;
typedef struct ph__cupti_kernel { /* CUpti_ActivityKernel5 and newer */
    int kind;
    uint8_t cache, shared_config;
    uint16_t registers;
    int partition_requested, partition_executed;
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3], shared_static, shared_dynamic;
    uint32_t local_per_thread, local_total, correlation;
    int64_t grid_id;
    const char *name;
    void *reserved;
    uint64_t queued, submitted;
    uint8_t launch_type, carveout_is_requested, carveout, padding;
    uint32_t shared_executed;
    uint64_t graph_node;
} ph__cupti_kernel;
typedef struct ph__cupti_transfer { /* CUpti_ActivityMemcpy3, CUpti_ActivityMemset2 and newer */
    int kind;
    uint32_t what;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint32_t detail, padding;
    void *reserved;
    uint64_t graph_node;
} ph__cupti_transfer;
typedef void (*ph__cupti_room_fn)(uint8_t **buffer, size_t *bytes, size_t *most_records);
typedef void (*ph__cupti_full_fn)(ph__cu_context context, uint32_t stream, uint8_t *buffer,
                                  size_t bytes, size_t used);
#endif
