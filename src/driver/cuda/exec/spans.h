/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/spans.h: the spans of nodes that were measured. */
#ifndef PH_DRIVER_CUDA_EXEC_SPANS_H
#define PH_DRIVER_CUDA_EXEC_SPANS_H
#include "base/vec.h"
#include "driver/driver.h"

typedef PH__VEC(ph__drv_span) ph__cuda_spans;
#endif
