/* SPDX-License-Identifier: MIT */
/* comm/work/on_gpu.h: collectives of GPUs, by NCCL. */
#ifndef PH_COMM_WORK_ON_GPU_H
#define PH_COMM_WORK_ON_GPU_H
#include "comm/work/work.h"

/* Submits them as one group of NCCL's, or has the stream's capture record them. A failure behind
 * the first call of NCCL is the communicator's. */
ph_status ph__on_gpu_submit(ph_comm *comm, ph_stream *stream, ph__collective_args *args,
                            size_t count, const char *call);
#endif
