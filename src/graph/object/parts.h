/* SPDX-License-Identifier: MIT */
/* graph/object/parts.h: what a graph holds of memory, pools, and objects of the user. */
#ifndef PH_GRAPH_OBJECT_PARTS_H
#define PH_GRAPH_OBJECT_PARTS_H
#include "record/record.h"

/* One pool that a graph holds, and the memory of it that the graph's replays may write. Known to
 * every graph that shares the pool, until none is left: see memory/epochs.c. */
typedef struct ph__writer {
    /* among those of the pool that are held, or gone: under the lock of all, as is all but
     * `last` */
    struct ph__writer *previous, *next;
    struct ph__writers *among;
    /* retained while the graph holds it; the name of the pool afterwards */
    ph_pool *pool;
    _Atomic uint64_t last; /* the pool's epoch of the graph's last replay */
    uint64_t graph_id;
    PH__VEC(ph__ranges) sets; /* one for each capture that the executable runs */
    bool gone;                /* the graph has let go */
    bool updated;             /* the last update brought it: goes with the next one */
    /* may have written all of the pool: stands for several that have gone, or nobody knows */
    bool anywhere;
} ph__writer;

/* Allocations that a graph holds, by their device: most are of the graph's own. */
typedef struct ph__held_of {
    ph_device *device; /* retained */
    ph__map at;        /* generation -> base */
} ph__held_of;
typedef struct ph__held {
    PH__VEC(ph__held_of) of;
    size_t count; /* of all */
} ph__held;

/* A pool that the replays of a nested graph use, as the capture that it was put into keeps it
 * until its end. */
typedef struct ph__lent {
    struct ph__lent *next;
    ph_pool *pool;            /* held as a graph holds it */
    PH__VEC(ph__ranges) sets; /* as in a writer */
    bool anywhere;
    uint64_t ticket; /* of the replay that is just lending it; 0: it has */
} ph__lent;

/* The last child node of a capture whose replays use the pool, and the stream that it is on. */
typedef struct ph__nested {
    const ph_pool *pool; /* lent to the capture */
    ph__drv_node *node;
    uint64_t stream;
} ph__nested;

typedef struct ph__retained {
    ph_release_fn release;
    void *object;
} ph__retained;
/* The objects of ph_graph_retain for one capture, for its graph and all graphs that run a copy of
 * its nodes: the last holder releases them. */
typedef struct ph__retained_list {
    atomic_uint holders;
    PH__VEC(ph__retained) objects;
    bool synchronize;
} ph__retained_list;
/* The lists that a graph holds, with all that their release needs, so that they can outlive the
 * graph until no capture is open. */
typedef struct ph__batch {
    ph__deferred deferred;
    ph_device *device; /* retained; NULL when no stream is to be waited for */
    ph__retained_list *own;
    ph__map others; /* key and value: lists of nested and updating captures, held, each once */
    PH__VEC(ph_stream *) streams; /* retained */
    bool synchronize;
} ph__batch;
#endif
