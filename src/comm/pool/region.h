/* SPDX-License-Identifier: MIT */
/* comm/pool/region.h: a piece of memory that is registered with a communicator, if that registers
 * memory at all. */
#ifndef PH_COMM_POOL_REGION_H
#define PH_COMM_POOL_REGION_H
#include "comm/object/comm.h"
#include "memory/block/block.h"

typedef struct ph__registered {
    void *memory;
    size_t bytes;
    void *registration; /* NULL: it is not registered */
    bool by_nccl;       /* NCCL has allocated it */
    /* the source's */
    ph__segment *segment; /* of its heap */
    bool kept;            /* of the reserve: stays as long as the pool */
    bool leaves;
    struct ph__registered *next_leaving;
} ph__registered;

/* Several ranks with a GPU each. */
bool ph__comm_registers(const ph_comm *comm);
/* Waits while another thread submits to the communicator. */
ph_status ph__registered_create(ph__registered **out, ph_comm *comm, size_t bytes,
                                const char *call);
/* False, and nothing changed: another thread submits, or NCCL does not let go of it now. */
bool ph__registered_deregister(ph__registered *region, ph_comm *comm);
/* One that is registered no more. */
void ph__registered_destroy(ph__registered *region, ph_device *device);
#endif
