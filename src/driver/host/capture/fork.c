/* SPDX-License-Identifier: MIT */
/* driver/host/capture/fork.c: forks and joins: events that are recorded in a capture, and streams
 * that wait for them. */
#include "driver/host/capture/fork.h"
#include "driver/host/capture/capture.h"

int ph__host_capture_event_record(ph__host_event *event, ph__host_stream *stream)
{
    if (event->device != stream->device)
        return PH__R_INVALID_HANDLE;
    int result = PH__R_OK;
    pthread_mutex_lock(&stream->device->capture_lock);
    const ph__host_capture *capture = stream->capture;
    if (!capture) {
        result = PH__R_ILLEGAL_STATE;
    } else if (capture->killed) {
        result = ph__host_capture_dead(capture);
    } else {
        event->capture_id = capture->id;
        event->captured = stream->terminals;
    }
    pthread_mutex_unlock(&stream->device->capture_lock);
    return result;
}

/* In an open capture, or in one that is over. */
static bool was_recorded_in_capture(ph__host_event *event)
{
    return event->capture_id != 0;
}

static bool ever_recorded(ph__host_event *event)
{
    pthread_mutex_lock(&event->lock);
    bool recorded = event->marker != NULL;
    pthread_mutex_unlock(&event->lock);
    return recorded;
}

/* The event was last recorded outside of any capture. */
static int wait_for_outside(ph__host_capture *capture, ph__host_event *event)
{
    return ever_recorded(event) ? ph__host_capture_apply(capture, PH__RULE_WAIT_ISOLATION) : 0;
}

/* source: the open capture that the event was recorded in. */
static int wait_for_captured(ph__host_capture *source, ph__host_stream *stream,
                             ph__host_event *event)
{
    ph__host_capture *capture = stream->capture;
    if (capture && capture != source) {
        int number = ph__host_capture_apply(capture, PH__RULE_WAIT_MERGE);
        (void)ph__host_capture_apply(source, PH__RULE_WAIT_MERGE); /* the same number */
        return number;
    }
    if (source->killed)
        return ph__host_capture_dead(source);
    if (stream->is_legacy)
        return ph__host_capture_apply(source, PH__RULE_WAIT_LEGACY);
    bool done = capture ? ph__host_set_unite(source->graph, &stream->terminals, &event->captured)
                        : ph__host_capture_join(source, stream, event->captured);
    return done ? PH__R_OK : PH__R_OUT_OF_MEMORY;
}

static int wait_locked(bool *handled, ph__host_stream *stream, ph__host_event *event)
{
    ph__host_capture *capture = stream->capture;
    if (!capture && event->capture_id == 0) {
        *handled = false;
        return PH__R_OK;
    }
    if (event->capture_id == 0)
        return capture->killed ? ph__host_capture_dead(capture) : wait_for_outside(capture, event);
    ph__host_capture *source = ph__host_capture_find(stream->device, event->capture_id);
    if (source)
        return wait_for_captured(source, stream, event);
    if (capture)
        ph__host_capture_invalidate(capture, PH__R_CAPTURED_EVENT, "cuStreamWaitEvent",
                                    "an event of a capture that is over");
    return PH__R_CAPTURED_EVENT;
}

/* A capture is of one device: its events cannot pull streams of others in. */
static int wait_across_devices(bool *handled, ph__host_stream *stream, ph__host_event *event)
{
    if (was_recorded_in_capture(event)) {
        ph__driver_set_reason("the event was recorded in a capture of another device, and a "
                              "capture is of one device alone");
        return PH__R_NOT_SUPPORTED;
    }
    int result = PH__R_OK;
    pthread_mutex_lock(&stream->device->capture_lock);
    if (!stream->capture)
        *handled = false;
    else if (stream->capture->killed)
        result = ph__host_capture_dead(stream->capture);
    else
        result = wait_for_outside(stream->capture, event);
    pthread_mutex_unlock(&stream->device->capture_lock);
    return result;
}

int ph__host_capture_wait(bool *handled, ph__host_stream *stream, ph__host_event *event, int flags)
{
    *handled = true;
    if ((flags & PH__EVENT_RECORD_EXTERNAL) &&
        atomic_load_explicit(&stream->capturing, memory_order_acquire)) {
        int result = ph__host_record_event_node(stream, event, true);
        if (result != PH__R_ILLEGAL_STATE) /* another thread has ended the capture meanwhile */
            return result;
    }
    if (event->device != stream->device)
        return wait_across_devices(handled, stream, event);
    if (event->capture_id == 0 && !atomic_load_explicit(&stream->capturing, memory_order_acquire)) {
        *handled = false;
        return PH__R_OK;
    }
    pthread_mutex_lock(&stream->device->capture_lock);
    int result = wait_locked(handled, stream, event);
    pthread_mutex_unlock(&stream->device->capture_lock);
    return result;
}
