/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/abi_params.h: what this driver uses of NVIDIA's driver interface: the structs
 * that its functions take. */
#ifndef PH_CUDA_ABI_PARAMS_H
#define PH_CUDA_ABI_PARAMS_H
#include "driver/cuda/load/abi.h"

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
typedef union ph__cu_launch_value { /* CUlaunchAttributeValue */
    char bytes[64];
    int programmatic_serialization_allowed;
    uint64_t alignment;
} ph__cu_launch_value;
typedef struct ph__cu_launch_attribute { /* CUlaunchAttribute */
    int id;
    char padding[4];
    ph__cu_launch_value value;
} ph__cu_launch_attribute;
typedef struct ph__cu_launch_config { /* CUlaunchConfig */
    unsigned grid[3], block[3], shared_bytes;
    ph__cu_stream stream;
    ph__cu_launch_attribute *attributes;
    unsigned attribute_count;
} ph__cu_launch_config;
#endif
