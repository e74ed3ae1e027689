/* SPDX-License-Identifier: MIT */
/* tensor/cudnn/cudnn_abi.h: the part of cuDNN 9's backend interface that is used, declared by us;
 * tests/headers/cudnn_abi.c holds it against NVIDIA's headers. Numbers are those of the documented
 * enumerations. */
#ifndef PH_TENSOR_CUDNN_CUDNN_ABI_H
#define PH_TENSOR_CUDNN_CUDNN_ABI_H
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;

enum {
    PH__CUDNN_OK = 0,

    PH__CUDNN_F32 = 0, /* cudnnDataType_t */
    PH__CUDNN_F16 = 2,
    PH__CUDNN_I32 = 4,
    PH__CUDNN_BF16 = 9,
    PH__CUDNN_BOOL = 11,

    PH__CUDNN_ADD = 0, /* cudnnPointwiseMode_t */
    PH__CUDNN_MULTIPLY = 1,
    PH__CUDNN_DIVIDE = 6,
    PH__CUDNN_SUBTRACT = 9,
    PH__CUDNN_EXP = 13,
    PH__CUDNN_LOG = 15,
    PH__CUDNN_IDENTITY = 21,
    PH__CUDNN_GREATER_EQUAL = 303,
    PH__CUDNN_INDEX = 501,
    PH__CUDNN_SELECT = 601,

    PH__CUDNN_SUM = 0, /* cudnnReduceTensorOp_t */
    PH__CUDNN_MAX = 3,

    PH__CUDNN_HEURISTICS_A = 3, /* cudnnBackendHeurMode_t */

    PH__CUDNN_NOTE_NARROWED = 1, /* cudnnBackendNumericalNote_t: operands */
    PH__CUDNN_NOTE_NARROW_SUMS = 2,
    PH__CUDNN_NOTE_ANY_ORDER = 4,
    PH__CUDNN_NOTES = 10,

    PH__CUDNN_TYPE_HANDLE = 0, /* cudnnBackendAttributeType_t */
    PH__CUDNN_TYPE_DTYPE = 1,
    PH__CUDNN_TYPE_BOOL = 2,
    PH__CUDNN_TYPE_I64 = 3,
    PH__CUDNN_TYPE_ADDRESS = 6,
    PH__CUDNN_TYPE_HEURISTICS = 8,
    PH__CUDNN_TYPE_NOTE = 11,
    PH__CUDNN_TYPE_POINTWISE = 14,
    PH__CUDNN_TYPE_DESCRIPTOR = 15,
    PH__CUDNN_TYPE_REDUCTION = 18,

    PH__CUDNN_POINTWISE = 0, /* cudnnBackendDescriptorType_t */
    PH__CUDNN_ENGINE = 2,
    PH__CUDNN_CONFIGURATION = 3,
    PH__CUDNN_HEURISTICS = 4,
    PH__CUDNN_PLAN = 5,
    PH__CUDNN_OPERATION_POINTWISE = 13,
    PH__CUDNN_OPERATIONS = 15,
    PH__CUDNN_PACK = 16,
    PH__CUDNN_TENSOR = 17,
    PH__CUDNN_MATMUL = 18,
    PH__CUDNN_OPERATION_MATMUL = 19,
    PH__CUDNN_REDUCTION = 21,
    PH__CUDNN_OPERATION_REDUCTION = 22,
    PH__CUDNN_OPERATION_RESHAPE = 31,

    PH__CUDNN_POINTWISE_MODE = 0, /* cudnnBackendAttributeName_t */
    PH__CUDNN_POINTWISE_COMPUTE = 1,
    PH__CUDNN_POINTWISE_AXIS = 9,
    PH__CUDNN_HEURISTICS_MODE = 200,
    PH__CUDNN_HEURISTICS_OPERATIONS = 201,
    PH__CUDNN_HEURISTICS_RESULTS = 202,
    PH__CUDNN_CONFIGURATION_ENGINE = 300,
    PH__CUDNN_PLAN_HANDLE = 400,
    PH__CUDNN_PLAN_CONFIGURATION = 401,
    PH__CUDNN_PLAN_WORKSPACE = 402,
    PH__CUDNN_OPERATION_POINTWISE_BY = 750,
    PH__CUDNN_OPERATION_POINTWISE_X = 751,
    PH__CUDNN_OPERATION_POINTWISE_B = 752,
    PH__CUDNN_OPERATION_POINTWISE_Y = 753,
    PH__CUDNN_OPERATION_POINTWISE_T = 758,
    PH__CUDNN_OPERATIONS_HANDLE = 800,
    PH__CUDNN_OPERATIONS_LIST = 801,
    PH__CUDNN_TENSOR_ALIGNMENT = 900,
    PH__CUDNN_TENSOR_DTYPE = 901,
    PH__CUDNN_TENSOR_DIMENSIONS = 902,
    PH__CUDNN_TENSOR_STRIDES = 903,
    PH__CUDNN_TENSOR_ID = 906,
    PH__CUDNN_TENSOR_VIRTUAL = 907,
    PH__CUDNN_TENSOR_BY_VALUE = 908,
    PH__CUDNN_PACK_IDS = 1000,
    PH__CUDNN_PACK_ADDRESSES = 1001,
    PH__CUDNN_PACK_WORKSPACE = 1003,
    PH__CUDNN_ENGINE_NOTES = 1303,
    PH__CUDNN_MATMUL_COMPUTE = 1500,
    PH__CUDNN_OPERATION_MATMUL_A = 1520,
    PH__CUDNN_OPERATION_MATMUL_B = 1521,
    PH__CUDNN_OPERATION_MATMUL_C = 1522,
    PH__CUDNN_OPERATION_MATMUL_BY = 1523,
    PH__CUDNN_REDUCTION_OPERATOR = 1600,
    PH__CUDNN_REDUCTION_COMPUTE = 1601,
    PH__CUDNN_OPERATION_REDUCTION_X = 1610,
    PH__CUDNN_OPERATION_REDUCTION_Y = 1611,
    PH__CUDNN_OPERATION_REDUCTION_BY = 1612,
    PH__CUDNN_OPERATION_RESHAPE_X = 2200,
    PH__CUDNN_OPERATION_RESHAPE_Y = 2201
};

/* Handles and descriptors are pointers to what is the library's. X(name, type of what it returns,
 * parameters). */
#define PH__CUDNN_FUNCTIONS(X)                                                                     \
    X(GetVersion, size_t, (void))                                                                  \
    X(Create, int, (void **handle))                                                                \
    X(Destroy, int, (void *handle))                                                                \
    X(SetStream, int, (void *handle, struct CUstream_st *stream))                                  \
    X(BackendCreateDescriptor, int, (int type, void **descriptor))                                 \
    X(BackendDestroyDescriptor, int, (void *descriptor))                                           \
    X(BackendFinalize, int, (void *descriptor))                                                    \
    X(BackendSetAttribute, int,                                                                    \
      (void *descriptor, int name, int type, int64_t count, const void *values))                   \
    X(BackendGetAttribute, int,                                                                    \
      (void *const descriptor, int name, int type, int64_t wanted, int64_t *count, void *values))  \
    X(BackendExecute, int, (void *handle, void *plan, void *pack))

typedef struct ph__cudnn_functions {
#define PH__CUDNN_MEMBER(name, result, parameters) result(*name) parameters;
    PH__CUDNN_FUNCTIONS(PH__CUDNN_MEMBER)
#undef PH__CUDNN_MEMBER
} ph__cudnn_functions;
#endif
