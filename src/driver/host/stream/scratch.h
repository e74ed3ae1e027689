/* SPDX-License-Identifier: MIT */
/* driver/host/stream/scratch.h: shared memory for a stream's kernels. */
#ifndef PH_DRIVER_HOST_STREAM_SCRATCH_H
#define PH_DRIVER_HOST_STREAM_SCRATCH_H
#include "driver/host/stream/stream.h"

/* Scratch for shared memory: one slice per thread of the device. reserve: commands submitted
 * from now on find `bytes` of it. 0 or 2. */
int ph__host_stream_reserve_scratch(ph__host_stream *stream, size_t bytes);
typedef struct ph__host_slices {
    unsigned char *at; /* 64-byte aligned; NULL when there is none */
    size_t stride;
} ph__host_slices;
/* for the running command */
ph__host_slices ph__host_stream_scratch(const ph__host_stream *stream);
#endif
