/* SPDX-License-Identifier: MIT */
/* driver/host/stream/stream.h: the state of a stream. */
#ifndef PH_DRIVER_HOST_STREAM_STREAM_H
#define PH_DRIVER_HOST_STREAM_STREAM_H
#include "driver/host/stream/device.h"

typedef struct ph__host_command ph__host_command; /* queue.h */
typedef struct ph__host_scratch ph__host_scratch; /* scratch.c */

/* The nodes on which the next node of a stream depends. The array is the graph's, never changes in
 * [0, count), and lives as long as it; block: private to capture/graph.c. Zero is the empty set;
 * sets are copied by assignment and need no freeing. */
typedef struct ph__host_node_set {
    ph__drv_node *const *at;
    size_t count;
    struct ph__host_set_block *block;
} ph__host_node_set;

struct ph__host_stream {
    ph__host_device *device;
    int flags, priority;
    bool is_legacy;
    /* queue: queue.c. Commands are numbered from 1, wrapping; `running`: somebody owns the
     * right to run them. Paddings keep what the runner writes and what others write on lines of
     * their own. */
    char apart_1[64];
    ph__spinlock lock;
    bool running, exited;
    atomic_bool stopping, has_thread;
    atomic_uint submitted, sleeping;
    _Atomic(ph__host_command *) head; /* written under lock */
    ph__host_command *tail, *spare_commands;
    unsigned spare_count;
    size_t scratch_promised;
    char apart_2[64];
    /* awaited: while there are waiters no later than the first number that one waits for; written
     * under lock */
    atomic_uint completed, waiters, awaited;
    /* the runner's own: on their way to the spare ones */
    ph__host_command *finished, *finished_last;
    unsigned finished_count;
    ph__host_scratch *scratch; /* of the running command */
    char apart_3[64];
    pthread_t thread;
    /* under streams_lock */
    uint64_t id;
    unsigned users; /* threads that wait for it in ph__host_streams_wait */
    bool destroyed;
    /* implicit order: the last number that the legacy stream waits for */
    unsigned given_to_legacy;
    /* the last number of the legacy stream that this one waits for */
    atomic_uint received_from_legacy;
    /* capture: capture/capture.c, under capture_lock; `capturing` may be read without it */
    atomic_bool capturing; /* in a capture, active or invalidated */
    ph__host_capture *capture;
    ph__host_node_set terminals; /* the dependencies of the next node */
};
#endif
