/* SPDX-License-Identifier: MIT */
/* comm/object/place.h: which rank this process is, and of how many. */
#ifndef PH_COMM_OBJECT_PLACE_H
#define PH_COMM_OBJECT_PLACE_H
#include "comm/engine/engine.h"
#include <phonograph/comm.h>

typedef struct ph__comm_place {
    uint32_t rank, size;
    const ph__engine *engine; /* NULL: one rank */
} ph__comm_place;

/* By the options, the environment, MPI, or SLURM. Begins MPI where there are more ranks than one;
 * for GPUs only where a launcher of MPI has started the process: NCCL needs none. */
ph_status ph__comm_place_find(ph__comm_place *out, const ph_comm_options *options, bool gpu,
                              const char *call);
/* "HOST:PORT" of rank 0 for the n-th communicator of the process, from 0. ARGUMENT: none is
 * named. */
ph_status ph__comm_place_address(char out[300], const ph_comm_options *options, unsigned number,
                                 const char *call);
#endif
