/* SPDX-License-Identifier: MIT */
/* comm/work/work.h: what a communicator keeps for its collectives. */
#ifndef PH_COMM_WORK_WORK_H
#define PH_COMM_WORK_WORK_H
#include "base/vec.h"
#include "comm/object/comm.h"

enum {
    PH__OF_GRAPH = 1, /* of a capture: each replay runs it */
    PH__IN_GROUP = 2,
    PH__ROOM_BYTES = 4 << 20, /* for parts of other ranks */
    PH__REPLAYS = 1024        /* of graphs with collectives, in flight */
};
/* The arguments of a collective's kernel, all the same struct. */
typedef struct ph__collective_args {
    ph_comm *comm;
    ph__operation operation; /* sequence and graph are of the moment */
    const void *send;
    void *receive;
    uint64_t send_bytes, receive_bytes;
    uint64_t flags;
} ph__collective_args;

/* A send or receive that has begun. */
typedef struct ph__exchange {
    ph__collective_args args;
    ph__operation note;         /* sent before the contents, or received */
    ph__transfer *transfers[2]; /* of the note and of the contents; NULL: over */
    bool begun;                 /* the transfer of the contents was */
} ph__exchange;

struct ph__comm_work {
    /* By kind, and by addresses: send alone, receive alone, both. Made when first needed. */
    ph_kernel *kernels[PH__OPERATIONS][3];
    atomic_uint submitted; /* eagerly, and not over */
    /* ---- a group that is open ---- */
    bool grouping;
    ph_stream *group_stream; /* an identity; NULL: nothing yet */
    uint64_t group_capture;  /* of the capture that the stream is in; 0: none */
    PH__VEC(ph__collective_args) group;
    /* ---- fingerprints of replays ---- from those that submit to those that run */
    _Atomic uint64_t replays[PH__REPLAYS];
    _Atomic uint64_t replays_begun, replays_run;
    /* ---- of the collective that runs, on whatever thread ---- */
    uint64_t graph;      /* the fingerprint of the graph that runs */
    unsigned char *room; /* NULL: GPUs */
    PH__VEC(ph__exchange *) exchanges;
};

/* Makes it where it is not there. */
ph_status ph__comm_need_work(ph_comm *comm, const char *call);
/* The kernel for these arguments. */
ph_status ph__comm_kernel(ph_kernel **out, ph_comm *comm, const ph__collective_args *args,
                          const char *call);
#endif
