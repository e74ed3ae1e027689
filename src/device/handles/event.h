/* SPDX-License-Identifier: MIT */
/* device/handles/event.h: events: their references. */
#ifndef PH_DEVICE_HANDLES_EVENT_H
#define PH_DEVICE_HANDLES_EVENT_H
#include "base/map.h"
#include "base/status.h"
#include "driver/driver.h"
#include <stdatomic.h>
#include <stdbool.h>

struct ph_event {
    ph_device *device; /* retained; NULL: destroyed, and its memory kept (base/ended.h) */
    ph__drv_event *handle;
    bool timing, external;
    atomic_bool destroyed; /* by the user: captures and graphs may have it yet */
    atomic_int references; /* the user's, and those of captures and graphs that it is a node of */
    atomic_bool recorded;
    /* of the capture that the last record was in; 0: outside */
    _Atomic uint64_t capture_id;
    atomic_bool foreign; /* the capture was not this library's */
    /* the stream of its last record: an identity, never dereferenced */
    _Atomic(const ph_stream *) recorder;
};

/* The call's checks on an event: not NULL, and of this device when device is not NULL
 * (WRONG_DEVICE). */
ph_status ph__event_check(const ph_event *event, const ph_device *device, const char *call);

void ph__events_release(ph__map *events); /* each, and the map */
void ph__event_retain(ph_event *event);
#endif
