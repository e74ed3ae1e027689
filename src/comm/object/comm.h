/* SPDX-License-Identifier: MIT */
/* comm/object/comm.h: the communicator. */
#ifndef PH_COMM_OBJECT_COMM_H
#define PH_COMM_OBJECT_COMM_H
#include "base/status.h"
#include "base/sync.h"
#include "comm/engine/engine.h"
#include "comm/object/board.h"
#include "comm/object/operation.h"
#include "device/handles/failed.h"
#include <phonograph/comm.h>

/* One order of operations: that of the host's calls, or of the work of streams. */
typedef struct ph__comm_channel {
    ph__channel *raw;
    ph__operation *all; /* of each rank, the last one */
    uint64_t sequence;  /* of the last one */
    unsigned number;    /* on the board */
} ph__comm_channel;

typedef struct ph__comm_work ph__comm_work;     /* work/work.h */
typedef struct ph__comm_gpu ph__comm_gpu;       /* gpu.h */
typedef struct ph__comm_source ph__comm_source; /* pool/source.h */

struct ph_comm {
    atomic_int references;
    ph_device *device; /* retained */
    uint32_t rank, size;
    uint64_t timeout_ns;
    const ph__engine *engine; /* carries the host's bytes; NULL: one rank */
    ph__comm_gpu *gpu;        /* NULL: one rank, or a host device */
    ph__comm_channel control; /* of the host's calls */
    ph__comm_channel streams; /* of what streams run */
    /* Kept by the layer above for its collectives, and let go before the channels are. NULL: none
     * were submitted. */
    ph__comm_work *work;
    void (*drop_work)(ph_comm *comm);
    ph_event *order;       /* behind the last collective that was submitted; NULL: none was */
    uint64_t order_stream; /* the id of its stream; 0: none was */
    ph__board *board;      /* NULL: one rank */
    /* Sources of its pools, kept by the layer above, which lets go of them before NCCL goes, or, of
     * a communicator that has failed, behind it. over: NCCL holds nothing any more. */
    ph__comm_source *sources;
    void (*leave_sources)(ph_comm *comm, bool over); /* NULL: it has had no pool */
    bool unmixed;       /* captured and eager collectives are not mixed: mixing.h */
    atomic_uint graphs; /* number of those with captured collectives of it */
    atomic_bool failed; /* readable without the lock; never false again */
    ph__mutex lock;     /* of the rest */
    bool listed;        /* the device's waits report it */
    ph__failed_work failure;
    void (*wake)(ph_comm *comm); /* told of the failure; NULL: nobody waits for it */
};

/* ARGUMENT for NULL, STATE in a child of a fork, and the failure of one that has failed. */
ph_status ph__comm_check_usable(const ph_comm *comm, const char *call);
#endif
