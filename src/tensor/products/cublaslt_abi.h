/* SPDX-License-Identifier: MIT */
/* tensor/products/cublaslt_abi.h: what products use of cuBLASLt, declared by us;
 * tests/headers/cublaslt_abi.c holds it against the toolkit's headers. */
#ifndef PH_TENSOR_PRODUCTS_CUBLASLT_ABI_H
#define PH_TENSOR_PRODUCTS_CUBLASLT_ABI_H
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;

enum {
    PH__LT_OK = 0,
    PH__LT_ALLOC_FAILED = 3,
    PH__LT_NOT_SUPPORTED = 15,

    PH__LT_F32 = 0, /* cudaDataType */
    PH__LT_F64 = 1,
    PH__LT_F16 = 2,
    PH__LT_BF16 = 14,

    PH__LT_COMPUTE_F32 = 68, /* cublasComputeType_t */
    PH__LT_COMPUTE_F64 = 70,
    PH__LT_COMPUTE_TF32 = 77,

    PH__LT_AS_IT_IS = 0, /* cublasOperation_t */
    PH__LT_TRANSPOSED = 1,

    PH__LT_DESC_TRANSPOSE_A = 3, /* cublasLtMatmulDescAttributes_t */
    PH__LT_DESC_TRANSPOSE_B = 4,
    PH__LT_DESC_EPILOGUE = 7,
    PH__LT_DESC_BIAS_POINTER = 8,
    PH__LT_DESC_BIAS_TYPE = 26,

    PH__LT_EPILOGUE_BIAS = 4, /* cublasLtEpilogue_t */

    PH__LT_LAYOUT_BATCH_COUNT = 5, /* cublasLtMatrixLayoutAttribute_t */
    PH__LT_LAYOUT_BATCH_OFFSET = 6,

    PH__LT_PREFERENCE_WORKSPACE = 1, /* cublasLtMatmulPreferenceAttributes_t */
    PH__LT_PREFERENCE_REDUCTIONS = 3,
    PH__LT_PREFERENCE_ALIGNMENT_A = 5,
    PH__LT_PREFERENCE_ALIGNMENT_B = 6,
    PH__LT_PREFERENCE_ALIGNMENT_C = 7,
    PH__LT_PREFERENCE_ALIGNMENT_D = 8
};

typedef struct ph__lt_algorithm {
    uint64_t data[8];
} ph__lt_algorithm;
typedef struct ph__lt_choice {
    ph__lt_algorithm algorithm;
    size_t workspace;
    int state; /* the rest means something where this is PH__LT_OK */
    float waves;
    int reserved[4];
} ph__lt_choice;

/* Handles, descriptors, layouts and preferences are pointers to what is the library's. X(name,
 * type of what it returns, parameters). */
#define PH__LT_FUNCTIONS(X)                                                                        \
    X(Create, int, (void **handle))                                                                \
    X(Destroy, int, (void *handle))                                                                \
    X(MatmulDescCreate, int, (void **descriptor, int compute, int scale_type))                     \
    X(MatmulDescDestroy, int, (void *descriptor))                                                  \
    X(MatmulDescSetAttribute, int,                                                                 \
      (void *descriptor, int attribute, const void *value, size_t bytes))                          \
    X(MatrixLayoutCreate, int,                                                                     \
      (void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld))                      \
    X(MatrixLayoutDestroy, int, (void *layout))                                                    \
    X(MatrixLayoutSetAttribute, int,                                                               \
      (void *layout, int attribute, const void *value, size_t bytes))                              \
    X(MatmulPreferenceCreate, int, (void **preference))                                            \
    X(MatmulPreferenceDestroy, int, (void *preference))                                            \
    X(MatmulPreferenceSetAttribute, int,                                                           \
      (void *preference, int attribute, const void *value, size_t bytes))                          \
    X(MatmulAlgoGetHeuristic, int,                                                                 \
      (void *handle, void *descriptor, void *a, void *b, void *c, void *d, void *preference,       \
       int wanted, ph__lt_choice *choices, int *found))                                            \
    X(Matmul, int,                                                                                 \
      (void *handle, void *descriptor, const void *alpha, const void *a, void *layout_a,           \
       const void *b, void *layout_b, const void *beta, const void *c, void *layout_c, void *d,    \
       void *layout_d, const ph__lt_algorithm *algorithm, void *workspace, size_t workspace_bytes, \
       struct CUstream_st *stream))

typedef struct ph__lt_functions {
#define PH__LT_MEMBER(name, result, parameters) result(*name) parameters;
    PH__LT_FUNCTIONS(PH__LT_MEMBER)
#undef PH__LT_MEMBER
} ph__lt_functions;
#endif
