/* SPDX-License-Identifier: MIT */
/* tensor/files/safetensors_header.h: the header of a safetensors file. */
#ifndef PH_TENSOR_FILES_SAFETENSORS_HEADER_H
#define PH_TENSOR_FILES_SAFETENSORS_HEADER_H
#include "tensor/files/safetensors.h"

/* Reads and checks the header of the open file. On failure the caller frees
 * the entries read so far. */
ph_status ph__safetensors_read_header(ph_safetensors *file);
const char *ph__safetensors_dtype_name(ph_dtype dtype); /* as the format has it */
#endif
