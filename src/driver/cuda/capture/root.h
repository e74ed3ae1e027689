/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/root.h: nodes of a capture that depend on nothing. */
#ifndef PH_DRIVER_CUDA_CAPTURE_ROOT_H
#define PH_DRIVER_CUDA_CAPTURE_ROOT_H
#include "driver/driver.h"

/* Under the order: whether the stream's next node depends on a root of its capture. */
bool ph__cuda_follows_root(ph__drv_stream *stream);
#endif
