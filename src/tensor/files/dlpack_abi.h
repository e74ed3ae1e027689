/* SPDX-License-Identifier: MIT */
/* tensor/files/dlpack_abi.h: DLPack's structs (dmlc.github.io/dlpack, version 1), under names of
 * our own but for the two that its header and ours name both. */
#ifndef PH_TENSOR_FILES_DLPACK_ABI_H
#define PH_TENSOR_FILES_DLPACK_ABI_H
#include <phonograph/dlpack.h>

enum {
    PH__DL_MAJOR = 1,
    PH__DL_MINOR = 1
};
enum { /* devices; a 32-bit number there */
    PH__DL_CPU = 1,
    PH__DL_CUDA = 2,
    PH__DL_CUDA_HOST = 3
};
enum { /* codes of dtypes */
    PH__DL_INT = 0,
    PH__DL_UINT = 1,
    PH__DL_FLOAT = 2,
    PH__DL_BFLOAT = 4,
    PH__DL_BOOL = 6
};
enum { /* flags */
    PH__DL_READ_ONLY = 1
};

typedef struct ph__dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: contiguous */
    uint64_t byte_offset;
} ph__dl_tensor;

struct DLManagedTensor {
    ph__dl_tensor tensor;
    void *context;
    void (*deleter)(struct DLManagedTensor *self); /* may be NULL */
};

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* may be NULL */
    uint64_t flags;
    ph__dl_tensor tensor;
};

_Static_assert(sizeof(ph__dl_tensor) == 48 && sizeof(struct DLManagedTensor) == 64 &&
                   sizeof(struct DLManagedTensorVersioned) == 80,
               "DLPack's layout on 64 bits");
#endif
