/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/nvrtc.h: CUDA C text to code for a GPU, by NVIDIA's runtime compiler, which
 * is loaded when it is first needed. */
#ifndef PH_CUDA_NVRTC_H
#define PH_CUDA_NVRTC_H
#include "driver/cuda/load/image.h"

/* Compiles source->cuda with source->cuda_options for a GPU of that compute capability (90: 9.0),
 * or finds an earlier result in the cache (load/cache.h). Thread-safe.
 * - Text that includes files is compiled each time.
 * - Output: a cubin; PTX where the GPU is newer than NVRTC knows, or where the options ask for a
 *   virtual architecture.
 * - Returns a driver's number, with a reason. 801: no NVRTC, or it cannot compile for that GPU.
 *   218: the text does not compile; the reason has the first error, and the log all of NVRTC's
 *   words. 1: an option is wrong. Also 2 and 999. */
int ph__cuda_nvrtc_compile(ph__cuda_image *out, const ph_kernel_source *source, int capability);

/* 13000 for 13.0; 801 as above. */
int ph__cuda_nvrtc_version(int *version);
#endif
