/* SPDX-License-Identifier: MIT */
/* tests/headers/cuda_abi.c: our declarations of NVIDIA's interfaces against the toolkit's
 * headers: layouts, numbers, handle types and the type of every function in cuda_symbols.def,
 * and in what the tests have beside it. It is compiled, never run; a wrong declaration is a
 * compile error. */
#include <cuda.h>
#include <stddef.h>

#include "driver/cuda/load/abi_cupti.h"
#include "driver/cuda/load/abi_params.h"
#include "driver/driver.h"
#include "headers/same.h"
#include "tensor/products/products_driver.h"

/* ---- handles and functions of the user's ---- */

SAME_TYPE(ph__cu_device, CUdevice);
SAME_TYPE(ph__cu_context, CUcontext);
SAME_TYPE(ph__cu_module, CUmodule);
SAME_TYPE(ph__cu_function, CUfunction);
SAME_TYPE(ph__cu_kernel, CUkernel);
SAME_TYPE(ph__cu_stream, CUstream);
SAME_TYPE(ph__cu_event, CUevent);
SAME_TYPE(ph__cu_graph, CUgraph);
SAME_TYPE(ph__cu_node, CUgraphNode);
SAME_TYPE(ph__cu_exec, CUgraphExec);
SAME_TYPE(ph__cu_logs, CUlogsCallbackHandle);
SAME_TYPE(ph__cu_host_fn, CUhostFn);
/* C has the toolkit's unsigned long long and our uint64_t for two types where they are one and
 * the same to a machine. */
SAME_SIZE(ph__cu_pointer, CUdeviceptr);
SAME_SIZE(ph__cu_memory, CUmemGenericAllocationHandle);
SAME_SIZE(int, CUresult);

/* ---- numbers ---- */

SAME_NUMBER(PH__R_OK, CUDA_SUCCESS);
SAME_NUMBER(PH__R_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME_NUMBER(PH__R_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME_NUMBER(PH__R_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME_NUMBER(PH__R_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
SAME_NUMBER(PH__R_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME_NUMBER(PH__R_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME_NUMBER(PH__R_ILLEGAL_STATE, CUDA_ERROR_ILLEGAL_STATE);
SAME_NUMBER(PH__R_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME_NUMBER(PH__R_NOT_READY, CUDA_ERROR_NOT_READY);
SAME_NUMBER(PH__R_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_NUMBER(PH__R_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME_NUMBER(PH__R_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME_NUMBER(PH__R_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME_NUMBER(PH__R_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME_NUMBER(PH__R_CAPTURE_MERGE, CUDA_ERROR_STREAM_CAPTURE_MERGE);
SAME_NUMBER(PH__R_CAPTURE_UNMATCHED, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME_NUMBER(PH__R_CAPTURE_UNJOINED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME_NUMBER(PH__R_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME_NUMBER(PH__R_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME_NUMBER(PH__R_CAPTURED_EVENT, CUDA_ERROR_CAPTURED_EVENT);
SAME_NUMBER(PH__R_CAPTURE_WRONG_THREAD, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME_NUMBER(PH__R_UPDATE_FAILURE, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
SAME_NUMBER(PH__CU_R_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME_NUMBER(PH__CU_R_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
SAME_NUMBER(PH__CU_R_OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM);
SAME_NUMBER(PH__CU_R_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_NOT_READY);
SAME_NUMBER(PH__CU_R_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME_NUMBER(PH__CU_R_COMPAT_NOT_SUPPORTED, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SAME_NUMBER(PH__CU_R_UNKNOWN, CUDA_ERROR_UNKNOWN);

SAME_NUMBER(PH__CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_NUMBER(PH__CU_ATTRIBUTE_UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME_NUMBER(PH__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_NUMBER(PH__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_NUMBER(PH__CU_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_NUMBER(PH__CU_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
            CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);

SAME_NUMBER(PH__CU_POINTER_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME_NUMBER(PH__CU_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_NUMBER(PH__CU_POINTER_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME_NUMBER(PH__CU_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME_NUMBER(PH__CU_POINTER_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_NUMBER(PH__CU_POINTER_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME_NUMBER(PH__CU_POINTER_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME_NUMBER(PH__CU_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME_NUMBER(PH__CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME_NUMBER(PH__CU_MEMORY_ARRAY, CU_MEMORYTYPE_ARRAY);
SAME_NUMBER(PH__CU_MEMORY_UNIFIED, CU_MEMORYTYPE_UNIFIED);

SAME_NUMBER(PH__CU_FUNC_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME_NUMBER(PH__CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_NUMBER(PH__CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER);
SAME_NUMBER(PH__CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME_NUMBER(PH__CU_GET_PROC_LEGACY_STREAM, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
SAME_NUMBER(PH__CU_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME_NUMBER(PH__CU_CAPTURE_STATUS_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_NUMBER(PH__CU_CAPTURE_STATUS_INVALIDATED, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME_NUMBER(PH__CU_ADD_CAPTURE_DEPENDENCIES, CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
SAME_NUMBER(PH__CU_SET_CAPTURE_DEPENDENCIES, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
SAME_NUMBER(PH__CU_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_NUMBER(PH__CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME_NUMBER(PH__CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW);
SAME_NUMBER(PH__CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME_NUMBER(PH__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME_NUMBER(PH__CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY,
            CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
SAME_NUMBER(PH__CU_LAUNCH_ATTRIBUTE_PRIORITY, CU_LAUNCH_ATTRIBUTE_PRIORITY);
SAME_NUMBER(PH__CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAINS, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP);
SAME_NUMBER(PH__CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN);
#if CUDA_VERSION >= 12080
SAME_NUMBER(PH__CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
            CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION);
#endif
#if CUDA_VERSION >= 12030
SAME_NUMBER(PH__CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_CARVEOUT,
            CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
#endif
SAME_NUMBER(PH__CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME_NUMBER(PH__CU_DEPENDENCY_TYPE_PROGRAMMATIC, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
SAME_NUMBER(PH__CU_ALLOCATION_TYPE_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_NUMBER(PH__CU_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_NUMBER(PH__CU_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_NUMBER(PH__CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_NUMBER(PH__CU_HOST_ALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME_NUMBER(PH__CU_LOG_ERROR, CU_LOG_LEVEL_ERROR);
/* Addresses may not stand in a static assertion, but in an initialiser, where a division by 0 is
 * no constant. */
#define SAME_MARKER(name, theirs)                                                                  \
    const int same_##name = 1 / ((uintptr_t)(PH__CU_##name) == (uintptr_t)(theirs))
SAME_MARKER(LAUNCH_PARAM_END, CU_LAUNCH_PARAM_END);
SAME_MARKER(LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_POINTER);
SAME_MARKER(LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_BUFFER_SIZE);
SAME_MARKER(STREAM_LEGACY, CU_STREAM_LEGACY);
SAME_MARKER(STREAM_PER_THREAD, CU_STREAM_PER_THREAD);

/* What driver.h hands through as it is. */
SAME_NUMBER(PH__STREAM_BLOCKING, CU_STREAM_DEFAULT);
SAME_NUMBER(PH__STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME_NUMBER(PH__EVENT_TIMING, CU_EVENT_DEFAULT);
SAME_NUMBER(PH__EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME_NUMBER(PH__EVENT_RECORD_DEFAULT, CU_EVENT_RECORD_DEFAULT);
SAME_NUMBER(PH__EVENT_RECORD_EXTERNAL, CU_EVENT_RECORD_EXTERNAL);
SAME_NUMBER(PH__EVENT_RECORD_DEFAULT, CU_EVENT_WAIT_DEFAULT);
SAME_NUMBER(PH__EVENT_RECORD_EXTERNAL, CU_EVENT_WAIT_EXTERNAL);
SAME_NUMBER(PH__INSTANTIATE_AUTO_FREE_ON_LAUNCH, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
SAME_NUMBER(PH__INSTANTIATE_USE_NODE_PRIORITY, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
SAME_NUMBER(PH_CAPTURE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME_NUMBER(PH_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_NUMBER(PH_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_NUMBER(PH_NODE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL);
SAME_NUMBER(PH_NODE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMCPY);
SAME_NUMBER(PH_NODE_MEMSET, CU_GRAPH_NODE_TYPE_MEMSET);
SAME_NUMBER(PH_NODE_HOST, CU_GRAPH_NODE_TYPE_HOST);
SAME_NUMBER(PH_NODE_GRAPH, CU_GRAPH_NODE_TYPE_GRAPH);
SAME_NUMBER(PH_NODE_EMPTY, CU_GRAPH_NODE_TYPE_EMPTY);
SAME_NUMBER(PH_NODE_EVENT_WAIT, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
SAME_NUMBER(PH_NODE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
SAME_NUMBER(PH_NODE_SEMAPHORE_SIGNAL, CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL);
SAME_NUMBER(PH_NODE_SEMAPHORE_WAIT, CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
SAME_NUMBER(PH_NODE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
SAME_NUMBER(PH_NODE_MEM_FREE, CU_GRAPH_NODE_TYPE_MEM_FREE);
SAME_NUMBER(PH_NODE_BATCH_MEM_OP, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
SAME_NUMBER(PH_NODE_CONDITIONAL, CU_GRAPH_NODE_TYPE_CONDITIONAL);

/* ---- structs ---- */

STRUCT(ph__cu_location, CUmemLocation)
{
    FIELD(type, type);
    FIELD(id, id);
}

STRUCT(ph__cu_allocation, CUmemAllocationProp)
{
    FIELD(type, type);
    FIELD(handle_types, requestedHandleTypes);
    FIELD(location, location);
    FIELD(windows, win32HandleMetaData);
    FIELD(flags.compression, allocFlags.compressionType);
    FIELD(flags.rdma, allocFlags.gpuDirectRDMACapable);
    FIELD(flags.usage, allocFlags.usage);
    FIELD(flags.reserved, allocFlags.reserved);
}

STRUCT(ph__cu_access, CUmemAccessDesc)
{
    FIELD(location, location);
    FIELD(flags, flags);
}

STRUCT(ph__cu_kernel_params, CUDA_KERNEL_NODE_PARAMS_v2)
{
    FIELD(function, func);
    FIELD(grid[0], gridDimX);
    FIELD(grid[2], gridDimZ);
    FIELD(block[0], blockDimX);
    FIELD(block[2], blockDimZ);
    FIELD(shared_bytes, sharedMemBytes);
    FIELD(params, kernelParams);
    FIELD(extra, extra);
    FIELD(kernel, kern);
    FIELD(context, ctx);
}

STRUCT(ph__cu_copy_params, CUDA_MEMCPY3D)
{
    FIELD(src_x_bytes, srcXInBytes);
    FIELD(src_y, srcY);
    FIELD(src_z, srcZ);
    FIELD(src_lod, srcLOD);
    FIELD(src_type, srcMemoryType);
    FIELD(src_host, srcHost);
    FIELD(src_device, srcDevice);
    FIELD(src_array, srcArray);
    FIELD(reserved0, reserved0);
    FIELD(src_pitch, srcPitch);
    FIELD(src_height, srcHeight);
    FIELD(dst_x_bytes, dstXInBytes);
    FIELD(dst_y, dstY);
    FIELD(dst_z, dstZ);
    FIELD(dst_lod, dstLOD);
    FIELD(dst_type, dstMemoryType);
    FIELD(dst_host, dstHost);
    FIELD(dst_device, dstDevice);
    FIELD(dst_array, dstArray);
    FIELD(reserved1, reserved1);
    FIELD(dst_pitch, dstPitch);
    FIELD(dst_height, dstHeight);
    FIELD(width_bytes, WidthInBytes);
    FIELD(height, Height);
    FIELD(depth, Depth);
}

STRUCT(ph__cu_mem_op, CUstreamBatchMemOpParams)
{
    FIELD(operation, operation);
    FIELD(at.address, waitValue.address);
    FIELD(at.address, writeValue.address);
    FIELD(at.value, writeValue.value64);
    FIELD(at.flags, writeValue.flags);
}
SAME_NUMBER(PH__CU_MEM_OP_WAIT_VALUE_32, CU_STREAM_MEM_OP_WAIT_VALUE_32);
SAME_NUMBER(PH__CU_MEM_OP_WRITE_VALUE_32, CU_STREAM_MEM_OP_WRITE_VALUE_32);
SAME_NUMBER(PH__CU_MEM_OP_WAIT_VALUE_64, CU_STREAM_MEM_OP_WAIT_VALUE_64);
SAME_NUMBER(PH__CU_MEM_OP_WRITE_VALUE_64, CU_STREAM_MEM_OP_WRITE_VALUE_64);

STRUCT(ph__cu_mem_ops, CUDA_BATCH_MEM_OP_NODE_PARAMS)
{
    FIELD(context, ctx);
    FIELD(count, count);
    FIELD(ops, paramArray);
    FIELD(flags, flags);
}

STRUCT(ph__cu_fill_params, CUDA_MEMSET_NODE_PARAMS_v1)
{
    FIELD(dst, dst);
    FIELD(pitch, pitch);
    FIELD(value, value);
    FIELD(element_bytes, elementSize);
    FIELD(width, width);
    FIELD(height, height);
}

STRUCT(ph__cu_host_params, CUDA_HOST_NODE_PARAMS_v1)
{
    FIELD(fn, fn);
    FIELD(user, userData);
}

STRUCT(ph__cu_alloc_params, CUDA_MEM_ALLOC_NODE_PARAMS_v1)
{
    FIELD(pool, poolProps);
    FIELD(pool.location, poolProps.location);
    FIELD(pool.max_bytes, poolProps.maxSize);
    FIELD(pool.usage, poolProps.usage);
    FIELD(access, accessDescs);
    FIELD(access_count, accessDescCount);
    FIELD(bytes, bytesize);
    FIELD(address, dptr);
}

STRUCT(ph__cu_edge, CUgraphEdgeData)
{
    FIELD(from_port, from_port);
    FIELD(to_port, to_port);
    FIELD(type, type);
    FIELD(reserved, reserved);
}

STRUCT(ph__cu_instantiate_params, CUDA_GRAPH_INSTANTIATE_PARAMS)
{
    FIELD(flags, flags);
    FIELD(upload_stream, hUploadStream);
    FIELD(failed, hErrNode_out);
    FIELD(result, result_out);
}

STRUCT(ph__cu_update_result, CUgraphExecUpdateResultInfo)
{
    FIELD(result, result);
    FIELD(node, errorNode);
    FIELD(from_node, errorFromNode);
}

SAME_SIZE(ph__cu_launch_value, CUlaunchAttributeValue);
STRUCT(ph__cu_launch_attribute, CUlaunchAttribute)
{
    FIELD(id, id);
    FIELD(value, value);
    FIELD(value.programmatic_serialization_allowed, value.programmaticStreamSerializationAllowed);
}

STRUCT(ph__cu_launch_config, CUlaunchConfig)
{
    FIELD(grid[0], gridDimX);
    FIELD(grid[2], gridDimZ);
    FIELD(block[0], blockDimX);
    FIELD(block[2], blockDimZ);
    FIELD(shared_bytes, sharedMemBytes);
    FIELD(stream, hStream);
    FIELD(attributes, attrs);
    FIELD(attribute_count, numAttrs);
}

/* ---- CUPTI, where its headers lie beside the toolkit's ---- */

#if __has_include(<cupti.h>)
#include <cupti.h>
STRUCT(ph__cupti_call, CUpti_CallbackData)
{
    FIELD(site, callbackSite);
    FIELD(function, functionName);
    FIELD(params, functionParams);
    FIELD(result, functionReturnValue);
    FIELD(symbol, symbolName);
    FIELD(context, context);
    FIELD(context_id, contextUid);
    FIELD(correlation, correlationData);
    FIELD(correlation_id, correlationId);
}
SAME_TYPE(ph__cupti_subscriber, CUpti_SubscriberHandle);
SAME_SIZE(int, CUptiResult);
SAME_NUMBER(PH__CUPTI_EXIT, CUPTI_API_EXIT);
SAME_NUMBER(PH__CUPTI_DRIVER_API, CUPTI_CB_DOMAIN_DRIVER_API);
SAME_NUMBER(PH__CUPTI_R_OTHER_SUBSCRIBER, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
/* Enumerations are passed as unsigned by these compilers, and as int by us. */
#define CUptiResult          int
#define CUpti_CallbackDomain int
typedef void (*cupti_callback)(void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *);
SAME_TYPE(ph__cupti_callback, cupti_callback);
#undef CUpti_CallbackDomain
#undef CUptiResult

SAME_NUMBER(PH__CUPTI_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
SAME_NUMBER(PH__CUPTI_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
SAME_NUMBER(PH__CUPTI_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
SAME_NUMBER(PH__CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
SAME_NUMBER(PH__CUPTI_R_MAX_LIMIT_REACHED, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME_TYPE(ph__cupti_room_fn, CUpti_BuffersCallbackRequestFunc);
SAME_TYPE(ph__cupti_full_fn, CUpti_BuffersCallbackCompleteFunc);
FIELDS(ph__cupti_record, CUpti_Activity)
{
    FIELD(kind, kind);
}
#define SAME_KERNEL(theirs)                                                                        \
    FIELDS(ph__cupti_kernel, theirs)                                                               \
    {                                                                                              \
        FIELD(kind, kind);                                                                         \
        FIELD(start, start);                                                                       \
        FIELD(end, end);                                                                           \
        FIELD(correlation, correlationId);                                                         \
        FIELD(name, name);                                                                         \
        FIELD(graph_node, graphNodeId);                                                            \
    }
#define SAME_TRANSFER(theirs)                                                                      \
    FIELDS(ph__cupti_transfer, theirs)                                                             \
    {                                                                                              \
        FIELD(kind, kind);                                                                         \
        FIELD(bytes, bytes);                                                                       \
        FIELD(start, start);                                                                       \
        FIELD(end, end);                                                                           \
        FIELD(graph_node, graphNodeId);                                                            \
    }
SAME_KERNEL(CUpti_ActivityKernel5)
SAME_KERNEL(CUpti_ActivityKernel8)
SAME_KERNEL(CUpti_ActivityKernel9)
SAME_TRANSFER(CUpti_ActivityMemcpy4)
SAME_TRANSFER(CUpti_ActivityMemcpy5)
SAME_TRANSFER(CUpti_ActivityMemset3)
SAME_TRANSFER(CUpti_ActivityMemset4)
#if CUPTI_API_VERSION >= 130000
SAME_KERNEL(CUpti_ActivityKernel10)
SAME_TRANSFER(CUpti_ActivityMemcpy6)
#endif
#endif

/* ---- functions ---- the types that the toolkit keeps for cuGetProcAddress, one for each
 * function and version. Its names of what is checked above are read as ours here, so that whole
 * types can be compared. */

#define CUresult                         int
#define CUdevice_attribute               int
#define CUpointer_attribute              int
#define CUfunction_attribute             int
#define CUjit_option                     int
#define CUmemAllocationGranularity_flags int
#define CUstreamCaptureMode              int
#define CUstreamCaptureStatus            int
#define CUgraphNodeType                  int
#define CUdriverProcAddressQueryResult   int
#define CUdeviceptr                      ph__cu_pointer
#define CUdeviceptr_v2                   ph__cu_pointer
#define CUmemGenericAllocationHandle_v1  ph__cu_memory
#define CUmemAllocationProp_v1           ph__cu_allocation
#define CUmemAccessDesc_v1               ph__cu_access
#define CUDA_KERNEL_NODE_PARAMS_v2       ph__cu_kernel_params
#define CUDA_MEMCPY3D_v2                 ph__cu_copy_params
#define CUDA_MEMSET_NODE_PARAMS_v1       ph__cu_fill_params
#define CUDA_HOST_NODE_PARAMS_v1         ph__cu_host_params
#define CUDA_MEM_ALLOC_NODE_PARAMS       ph__cu_alloc_params
#define CUstreamBatchMemOpParams         ph__cu_mem_op
#define CUDA_BATCH_MEM_OP_NODE_PARAMS    ph__cu_mem_ops
#define CUgraphEdgeData                  ph__cu_edge
#define CUDA_GRAPH_INSTANTIATE_PARAMS    ph__cu_instantiate_params
#define CUgraphExecUpdateResultInfo      ph__cu_update_result
#define CUlaunchConfig                   ph__cu_launch_config
#undef CUkernelNodeAttrID
#define CUkernelNodeAttrID       int
#define CUkernelNodeAttrValue_v1 ph__cu_launch_value
#define CUlogsCallback           ph__cu_log_fn
#define cuuint64_t               uint64_t
#include <cudaTypedefs.h>

#define PH__CU_UP_TO CUDA_VERSION /* newer ones the header does not have */
#define PH__CU(name, version, need, parameters)                                                    \
    SAME_TYPE(int(*) parameters, PFN_cu##name##_v##version);
#include "../fake/cuda_programs.def"
#include "driver/cuda/load/symbols.def"
#undef PH__CU
#define PH__CU(name, version, parameters) SAME_TYPE(int(*) parameters, PFN_cu##name##_v##version);
PH__PRODUCT_DRIVER_FUNCTIONS(PH__CU)
#undef PH__CU
SAME_TYPE(ph__cu_get_proc_fn, PFN_cuGetProcAddress_v12000);

/* The log's own function type has an enumeration in it, which is an unsigned int to these
 * compilers. */
#undef CUlogsCallback
typedef void (*log_fn)(void *, unsigned, char *, size_t);
SAME_TYPE(CUlogsCallback, log_fn);
