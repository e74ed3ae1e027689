/* SPDX-License-Identifier: MIT */
/* driver/host/resource/rules.h: open captures, and the capture rules applied to them. */
#ifndef PH_DRIVER_HOST_RESOURCE_RULES_H
#define PH_DRIVER_HOST_RESOURCE_RULES_H
#include "driver/host/resource/event.h"
#include "driver/host/stream/stream.h"
#include "driver/rules.h"

/* An open capture. Everything under capture_lock. */
struct ph__host_capture {
    ph__host_device *device;
    uint64_t id;     /* unique in the process */
    uint64_t thread; /* the thread of begin */
    ph_capture_mode mode;
    ph__host_stream *origin;
    struct ph__host_graph *graph;
    PH__VEC(ph__host_stream *) streams; /* the members, the origin first */
    /* the number of the call that invalidated it; 0: it is active */
    int killed;
    const char *killer, *killer_what; /* the call that killed it, and the call's row of the rules */
};

/* The open capture of that id, or NULL when it is over. */
ph__host_capture *ph__host_capture_find(ph__host_device *device, uint64_t id);
/* The first cause stays. */
void ph__host_capture_invalidate(ph__host_capture *capture, int number, const char *call,
                                 const char *what);
/* Sets the thread's reason to what invalidated the capture and returns 901. */
int ph__host_capture_dead(const ph__host_capture *capture);

/* Applies one row to one capture for the calling thread: 0, or the number, which has invalidated
 * the capture unless the row says that it goes on, or that it is over, which is the caller's to
 * do. */
int ph__host_capture_apply(ph__host_capture *capture, ph__rule rule);

/* Applies a rule of the table for the calling thread to every open capture of the device: those
 * that it offends are invalidated, and the number returned; 0: go on. Cheap when no capture is
 * open. */
int ph__host_rule_captures(ph__host_device *device, ph__rule rule);
static inline int ph__host_rule(ph__host_device *device, ph__rule rule)
{
    return atomic_load_explicit(&device->open_captures, memory_order_acquire) == 0
               ? 0
               : ph__host_rule_captures(device, rule);
}
/* For rows that speak of one capture: `own` is applied to the capture that the stream is in (the
 * event was recorded in, when that one is still open), `other` to every other open capture.
 * own's number is returned before other's. */
int ph__host_rule_stream(ph__host_stream *stream, ph__rule own, ph__rule other);
int ph__host_rule_event(ph__host_event *event, ph__rule own, ph__rule other);
/* The same for work on the legacy default stream: 906 where a blocking stream captures (rule: the
 * _LEGACY_BLOCKING row). */
int ph__host_rule_legacy(ph__host_device *device, ph__rule rule);
ph_capture_mode ph__host_thread_mode(void);
#endif
