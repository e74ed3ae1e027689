/* SPDX-License-Identifier: MIT */
/* driver/host/resource/event.h: events: the last marker that was recorded into each. */
#ifndef PH_DRIVER_HOST_RESOURCE_EVENT_H
#define PH_DRIVER_HOST_RESOURCE_EVENT_H
#include "driver/host/stream/marker.h"
#include "driver/host/stream/stream.h"

typedef struct ph__host_event ph__host_event;
struct ph__host_event {
    ph__host_device *device;
    int flags;
    pthread_mutex_t lock;
    ph__host_marker *marker; /* the last record; NULL: never recorded */
    /* recorded in a capture: its id and the stream's nodes then; 0: outside. Under capture_lock;
     * the id may be read without it. */
    _Atomic uint64_t capture_id;
    ph__host_node_set captured;
    atomic_int references; /* event nodes and the handle */
};

void ph__host_event_retain(ph__host_event *event);
void ph__host_event_release(ph__host_event *event);
/* Makes marker (retained) the event's last record, outside any capture. */
void ph__host_event_set_marker(ph__host_event *event, ph__host_marker *marker);
ph__host_marker *
ph__host_event_marker(ph__host_event *event); /* retained for the caller; NULL: never recorded */
#endif
