/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/image.h: the code of a kernel, in a form that the driver loads. */
#ifndef PH_CUDA_IMAGE_H
#define PH_CUDA_IMAGE_H
#include <phonograph/kernel.h>

/* Cubin, fatbin or PTX text, whole. */
typedef struct ph__cuda_image {
    char *at; /* aligned as any type may need, and followed by a NUL; freed with ph__free */
    size_t bytes;
} ph__cuda_image;

/* Of source->cuda_image where that is given, else of its text, by NVRTC for a GPU of that
 * compute capability (90: 9.0). Returns a driver's number, with a reason: 801: it has neither;
 * 1: the image is in none of the forms, or cut off; what nvrtc.h says. */
int ph__cuda_image_of(ph__cuda_image *out, const ph_kernel_source *source, int capability);
#endif
