/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/activity.h: CUPTI's records of what ran. */
#ifndef PH_DRIVER_CUDA_EXEC_ACTIVITY_H
#define PH_DRIVER_CUDA_EXEC_ACTIVITY_H
#include "driver/cuda/exec/spans.h"

/* One user at a time. open: false, and why. read: appends the spans of what ran since the last
 * read; CUDA's number. */
typedef struct ph__cuda_activity ph__cuda_activity;
bool ph__cuda_activity_open(ph__cuda_activity **out, const ph__drv_exec *exec, char why[256]);
int ph__cuda_activity_read(ph__cuda_activity *activity, ph__cuda_spans *spans);
void ph__cuda_activity_close(ph__cuda_activity *activity); /* takes NULL */
#endif
