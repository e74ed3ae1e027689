/* SPDX-License-Identifier: MIT */
/* driver/host/capture/capture.h: an open capture of the host device. For the capture files alone;
 * everything under capture_lock. */
#ifndef PH_DRIVER_HOST_CAPTURE_CAPTURE_H
#define PH_DRIVER_HOST_CAPTURE_CAPTURE_H
#include "driver/host/capture/graph.h"

struct ph__host_capture {
    ph__host_device *device;
    uint64_t id;     /* unique in the process */
    uint64_t thread; /* that of begin */
    ph_capture_mode mode;
    ph__host_stream *origin;
    ph__host_graph *graph;
    PH__VEC(ph__host_stream *) streams; /* the members, the origin first */
    /* the number of the call that invalidated it; 0: it is active */
    int killed;
    const char *killer, *killer_what; /* that call and its row of the rules */
};

/* The open capture of that id, or NULL when it is over. */
ph__host_capture *ph__host_capture_find(ph__host_device *device, uint64_t id);
/* The first cause stays. */
void ph__host_capture_invalidate(ph__host_capture *capture, int number, const char *call,
                                 const char *what);
/* Sets the thread's reason to what invalidated the capture and returns 901. */
int ph__host_capture_dead(const ph__host_capture *capture);
/* Makes a stream a member. False when out of memory. */
bool ph__host_capture_join(ph__host_capture *capture, ph__host_stream *stream,
                           ph__host_node_set terminals);

/* As ph__host_record_kernel and its like; on success the body belongs to the node. */
int ph__host_record_child(ph__host_stream *stream, ph__host_graph *body);

/* Applies one row to one capture for the calling thread: 0, or the number, which has invalidated
 * the capture unless the row says that it goes on, or that it is over, which is the caller's to
 * do (host_rules.c). */
int ph__host_capture_apply(ph__host_capture *capture, ph__rule rule);
#endif
