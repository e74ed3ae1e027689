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

/* By the options, the environment, MPI, or SLURM. Begins MPI where there are more ranks than
 * one. */
ph_status ph__comm_place_find(ph__comm_place *out, const ph_comm_options *options,
                              const char *call);
#endif
