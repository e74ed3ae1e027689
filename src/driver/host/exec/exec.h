/* SPDX-License-Identifier: MIT */
/* driver/host/exec/exec.h: executables of the host device. For the files of this folder alone.
 *
 * A launch gives the changes to the image: at once when nothing is in flight, else as patches,
 * which the launch applies when its turn comes. So launches in flight keep their parameters, and
 * the cost is that of the change. A change that an image cannot take in place (more argument bytes
 * or shared memory, another event) makes a new image. The old one goes with its last launch. */
#ifndef PH_DRIVER_HOST_EXEC_EXEC_H
#define PH_DRIVER_HOST_EXEC_EXEC_H
#include "driver/host/exec/params.h"
#include "driver/host/stream/command.h"

typedef struct ph__exec_launch ph__exec_launch;
struct ph__exec_launch {
    ph__host_command command; /* first */
    ph__exec_launch *next;    /* spare ones */
    ph__host_exec *exec;
    ph__exec_image *image;
    ph__host_stream *stream;
    /* signalled at the end; only when another stream's launch waits for this one */
    ph__host_marker *marker;
    ph__exec_slot *patches;             /* their arguments lie behind them */
    size_t patch_count, patch_capacity; /* capacity in bytes */
    /* of the event nodes, in order: bound at the launch, as CUDA does */
    ph__host_marker *markers[];
};

struct ph__host_exec {
    ph__host_device *device;
    /* the template, which names the nodes; not touched once the executable was destroyed */
    ph__host_graph *graph;
    pthread_mutex_t lock; /* before a stream's; not held while the plan runs */
    ph__exec_params *params;
    ph__exec_image *image; /* of the next launch */
    uint32_t *dirty;       /* slots of the parameters that differ from what the newest launch has */
    size_t dirty_count;
    ph__exec_launch *last; /* the newest launch while it is in flight; NULL: none is */
    size_t in_flight;
    ph__exec_launch *spare;
    size_t launch_bytes; /* of all launches, spare or in flight */
    bool destroyed;
    _Atomic uint64_t uploads; /* as a device that has to would count them */
};
/* Before a launch or a change: an executable whose upload was deferred counts as uploaded. */
static inline void ph__exec_upload_first(ph__host_exec *exec)
{
    uint64_t none = 0;
    (void)atomic_compare_exchange_strong(&exec->uploads, &none, 1);
}

/* Nobody has it any more. */
void ph__exec_free(ph__host_exec *exec);
#endif
