/* SPDX-License-Identifier: MIT */
/* comm/object/gpu.h: what a communicator of GPUs has beside: NCCL's, and a thread that watches it,
 * as nobody else can end a wait for a GPU. */
#ifndef PH_COMM_OBJECT_GPU_H
#define PH_COMM_OBJECT_GPU_H
#include "comm/nccl/nccl.h"
#include "comm/object/comm.h"
#include "comm/object/place.h"

struct ph__comm_gpu {
    ph__nccl *control; /* NULL: MPI carries what the host tells */
    ph__nccl *data;
    /* Of data: whoever submits to it, or registers memory with it, until NCCL has done so. */
    ph__mutex calls;
    pthread_t thread;
    bool watched;     /* there is the thread */
    atomic_uint wake; /* a futex: counts what the thread is to look at soon */
    atomic_bool over; /* the thread is to end */
};

/* Connects the ranks: the board, the control channel, NCCL's communicator, and the thread. */
ph_status ph__gpu_connect(ph_comm *comm, const ph_comm_options *options, const char *call);
/* Waits for what was submitted, and lets go of all that. Also after a failure in the middle. */
void ph__gpu_disconnect(ph_comm *comm);

/* Waits until NCCL has launched what it was given last, as long as the communicator waits. */
ph_status ph__gpu_wait_launched(ph_comm *comm, ph__nccl *nccl, uint64_t deadline,
                                const ph__operation *what);
#endif
