/* SPDX-License-Identifier: MIT */
/* tensor/files/safetensors.h: an open safetensors file. */
#ifndef PH_TENSOR_FILES_SAFETENSORS_H
#define PH_TENSOR_FILES_SAFETENSORS_H
#include "base/vec.h"
#include "tensor/files/file.h"
#include <phonograph/tensor_file.h>

/* The format: 8 bytes, the length of the header; the header, JSON; then the bytes of all
 * tensors, without gaps. */
enum {
    PH__SAFETENSORS_LENGTH_BYTES = 8
};
#define PH__SAFETENSORS_MOST_HEADER UINT64_C(100000000) /* as the format's own library has it */

typedef struct ph__safe_entry {
    char *name;
    /* 0: one that this library does not have, or more dimensions than it has: only named */
    ph_dtype dtype;
    ph_shape shape;
    uint64_t begin, end; /* from the first byte behind the header */
} ph__safe_entry;

typedef struct ph__safe_pair {
    char *key, *value;
} ph__safe_pair;

struct ph_safetensors {
    ph__reader reader;
    char *path;
    uint64_t data;                   /* where the bytes of the tensors begin */
    PH__VEC(ph__safe_entry) entries; /* by name */
    PH__VEC(ph__safe_pair) metadata; /* by key */
};

/* Before tensors that are to be loaded all or not at all: reads and checks every one of a dtype
 * that there is, and gets the memory for it. What can fail behind it is the device. call: must
 * stay. */
ph_status ph__safetensors_look_up(ph_safetensors *file, ph_tape *tape, const char *call);
#endif
