/* SPDX-License-Identifier: MIT */
/* tests/headers/cublaslt_abi.c: our declarations of cuBLASLt against the toolkit's header. It is
 * compiled, never run. */
#include <cublasLt.h>
#include <stddef.h>

#include "tensor/products/cublaslt_abi.h"

#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " is " #theirs)
#define SAME_SIZE(ours, theirs)                                                                    \
    _Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs),           \
                   #ours " is"                                                                     \
                         " " #theirs)
#define SAME_PLACE(field, their_field)                                                             \
    _Static_assert(offsetof(ph__lt_choice, field) ==                                               \
                       offsetof(cublasLtMatmulHeuristicResult_t, their_field),                     \
                   #field " is " #their_field)

SAME_SIZE(ph__lt_algorithm, cublasLtMatmulAlgo_t);
SAME_SIZE(ph__lt_choice, cublasLtMatmulHeuristicResult_t);
SAME_PLACE(algorithm, algo);
SAME_PLACE(workspace, workspaceSize);
SAME_PLACE(state, state);
SAME_SIZE(int, cublasStatus_t);
SAME_SIZE(int, cudaDataType);
SAME_SIZE(int, cublasComputeType_t);
SAME_SIZE(int, cublasLtMatmulDescAttributes_t);
SAME_SIZE(int, cublasLtMatrixLayoutAttribute_t);
SAME_SIZE(int, cublasLtMatmulPreferenceAttributes_t);
SAME_SIZE(void *, cublasLtHandle_t);
SAME_SIZE(void *, cublasLtMatmulDesc_t);
SAME_SIZE(void *, cublasLtMatrixLayout_t);
SAME_SIZE(void *, cublasLtMatmulPreference_t);

SAME_NUMBER(PH__LT_OK, CUBLAS_STATUS_SUCCESS);
SAME_NUMBER(PH__LT_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME_NUMBER(PH__LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME_NUMBER(PH__LT_F32, CUDA_R_32F);
SAME_NUMBER(PH__LT_F64, CUDA_R_64F);
SAME_NUMBER(PH__LT_F16, CUDA_R_16F);
SAME_NUMBER(PH__LT_BF16, CUDA_R_16BF);
SAME_NUMBER(PH__LT_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME_NUMBER(PH__LT_COMPUTE_F64, CUBLAS_COMPUTE_64F);
SAME_NUMBER(PH__LT_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME_NUMBER(PH__LT_AS_IT_IS, CUBLAS_OP_N);
SAME_NUMBER(PH__LT_TRANSPOSED, CUBLAS_OP_T);
SAME_NUMBER(PH__LT_DESC_TRANSPOSE_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME_NUMBER(PH__LT_DESC_TRANSPOSE_B, CUBLASLT_MATMUL_DESC_TRANSB);
SAME_NUMBER(PH__LT_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME_NUMBER(PH__LT_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME_NUMBER(PH__LT_DESC_BIAS_TYPE, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
SAME_NUMBER(PH__LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME_NUMBER(PH__LT_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME_NUMBER(PH__LT_LAYOUT_BATCH_OFFSET, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME_NUMBER(PH__LT_PREFERENCE_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME_NUMBER(PH__LT_PREFERENCE_REDUCTIONS, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME_NUMBER(PH__LT_PREFERENCE_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME_NUMBER(PH__LT_PREFERENCE_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME_NUMBER(PH__LT_PREFERENCE_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME_NUMBER(PH__LT_PREFERENCE_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
