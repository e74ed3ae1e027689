/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/profile_events.h: a copy of a graph with an event behind each node. */
#ifndef PH_DRIVER_CUDA_EXEC_PROFILE_EVENTS_H
#define PH_DRIVER_CUDA_EXEC_PROFILE_EVENTS_H
#include "driver/cuda/exec/spans.h"

/* The copy of the executable's graph is in the executable's place until close. CUDA's numbers. */
typedef struct ph__cuda_clone ph__cuda_clone;
int ph__cuda_clone_open(ph__cuda_clone **out, ph__drv_exec *exec);
int ph__cuda_clone_read(ph__cuda_clone *copy, ph__cuda_spans *spans);
void ph__cuda_clone_close(ph__cuda_clone *copy); /* takes NULL */
#endif
