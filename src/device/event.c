/* SPDX-License-Identifier: MIT */
/* device/event.c: events: marks in streams, waits between streams, forks and joins of captures. */
#include "device/handles/event.h"
#include "device/capture/culprit.h"
#include "device/capture/forks.h"
#include "device/capture/refuse.h"
#include "device/capture/submit.h"
#include "device/handles/captures.h"
#include "device/handles/device.h"
#include "device/handles/failed.h"

/* Objects that the capture keeps go with its graph, whatever becomes of the submission. */
static ph_status keep_node(ph_event *event, uint64_t capture_id, const char *call)
{
    return ph__capture_keep_event(event->device, event, capture_id)
               ? PH_OK
               : ph__fail_host_memory(call, "the events of the capture");
}

/* Another thread has ended the capture since the question: CUDA takes an external record or wait on
 * a capturing stream alone. It is ordinary work then. */
static bool is_over(int result, const ph_stream *stream, uint64_t capture_id)
{
    return result == PH__R_ILLEGAL_STATE && ph__stream_capture_id(stream) != capture_id;
}

/* While stream->asks is shared. */
static ph_status record_asked(ph_event *event, ph_stream *stream, const char *call)
{
    uint64_t capture_id;
    bool held, as_node;
    int result;
    do {
        PH_TRY(ph__stream_find_capture(&capture_id, stream, call));
        as_node = event->external && capture_id != 0;
        if (as_node)
            PH_TRY(keep_node(event, capture_id, call));
        PH_TRY(ph__submit_enter(&held, stream, PH__RULE_EVENT_RECORD_LEGACY_BLOCKING, call));
        result = stream->device->driver->event_record(event->handle, stream->handle,
                                                      as_node ? PH__EVENT_RECORD_EXTERNAL
                                                              : PH__EVENT_RECORD_DEFAULT);
        ph__submit_leave(held, stream);
    } while (as_node && is_over(result, stream, capture_id));
    if (result != PH__R_OK)
        return ph__stream_fail(result, stream, PH__NAME_EVENT_RECORD, "%s", call);
    atomic_store(&event->foreign, ph__capture_is_foreign(stream, capture_id));
    atomic_store(&event->capture_id, as_node ? 0 : capture_id);
    atomic_store(&event->recorder, stream);
    atomic_store(&event->recorded, true);
    return PH_OK;
}

ph_status ph_event_record(ph_event *event, ph_stream *stream)
{
    static const char call[] = "ph_event_record";
    PH_TRY(ph__stream_check(stream, call));
    PH_TRY(ph__event_check(event, stream->device, call));
    ph__shared_lock(&stream->asks);
    ph_status status = record_asked(event, stream, call);
    ph__shared_unlock(&stream->asks);
    return status;
}

/* The stream is about to join the capture: the layers above finish what they have on it as
 * ordinary work. */
static ph_status prepare_fork(ph_stream *stream, uint64_t capture_id)
{
    ph_device *device = stream->device;
    for (int slot = 0; slot < PH__ATTACH_COUNT; slot++) {
        ph__attachment *attachment = ph__device_attached(device, slot);
        if (attachment && attachment->before_capture)
            PH_TRY(attachment->before_capture(attachment, stream));
    }
    if (!stream->blocking)
        return PH_OK;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++)
        if (device->captures.at[i]->id == capture_id)
            atomic_store(&device->captures.at[i]->has_blocking, true);
    pthread_mutex_unlock(&device->capture_lock);
    ph__legacy_wait(device);
    return PH_OK;
}

/* Refuses the waits that would kill a capture; prepares those that pull the stream into one. */
static ph_status check_wait(ph_stream *stream, const ph_event *event, uint64_t event_capture,
                            uint64_t stream_capture, const char *call)
{
    ph_device *device = stream->device;
    if (event_capture == 0)
        return stream_capture == 0
                   ? PH_OK
                   : ph__rule_refuse(device, PH__RULE_WAIT_ISOLATION, stream_capture);
    /* Whether somebody else's capture is over only the driver can tell. */
    if (!atomic_load(&event->foreign) && !ph__capture_is_open(device, event_capture))
        return ph__fail_native(
            PH_ERROR_CAPTURE, PH__R_CAPTURED_EVENT, PH__NAME_STREAM_WAIT_EVENT,
            "%s: the event was last recorded in a capture that is over, so that there is "
            "nothing to wait for; "
            "record it again, or use an external event",
            call);
    if (stream->is_default)
        return ph__rule_refuse(device, PH__RULE_WAIT_LEGACY, event_capture);
    if (stream_capture != 0 && stream_capture != event_capture)
        return ph__rule_refuse(device, PH__RULE_WAIT_MERGE, stream_capture);
    return stream_capture == 0 ? prepare_fork(stream, event_capture) : PH_OK;
}

/* While no capture begins on the stream. */
static ph_status wait_asked(ph_stream *stream, ph_event *event, const char *call)
{
    uint64_t stream_capture;
    PH_TRY(ph__stream_find_capture(&stream_capture, stream, call));
    bool as_node = event->external && stream_capture != 0;
    if (!as_node && !atomic_load(&event->recorded))
        return PH_OK;
    if (!as_node)
        PH_TRY(check_wait(stream, event, atomic_load(&event->capture_id), stream_capture, call));
    bool held = false;
    if (as_node)
        PH_TRY(keep_node(event, stream_capture, call));
    if (as_node)
        PH_TRY(ph__marks_enter(&held, stream, call));
    int result = stream->device->driver->stream_wait_event(stream->handle, event->handle,
                                                           as_node ? PH__EVENT_RECORD_EXTERNAL
                                                                   : PH__EVENT_RECORD_DEFAULT);
    ph__marks_leave(held);
    if (as_node && is_over(result, stream, stream_capture))
        return wait_asked(stream, event, call);
    if (result != PH__R_OK)
        return ph__stream_fail(result, stream, PH__NAME_STREAM_WAIT_EVENT, "%s", call);
    uint64_t event_capture = as_node ? 0 : atomic_load(&event->capture_id);
    if (event_capture != 0)
        ph__forks_wait(stream, atomic_load(&event->recorder), event_capture, stream_capture == 0);
    return PH_OK;
}

ph_status ph_stream_wait_event(ph_stream *stream, ph_event *event)
{
    static const char call[] = "ph_stream_wait_event";
    PH_TRY(ph__stream_check(stream, call));
    PH_TRY(ph__event_check(event, stream->device, call));
    bool joins = atomic_load(&event->capture_id) != 0;
    if (joins)
        ph__alone_lock(&stream->asks);
    else
        ph__shared_lock(&stream->asks);
    ph_status status = wait_asked(stream, event, call);
    if (joins)
        ph__alone_unlock(&stream->asks);
    else
        ph__shared_unlock(&stream->asks);
    return status;
}

ph_status ph_stream_wait_stream(ph_stream *stream, ph_stream *other)
{
    static const char call[] = "ph_stream_wait_stream";
    PH_TRY(ph__stream_check(stream, call));
    PH_TRY(ph__stream_check(other, call));
    if (stream->device != other->device)
        return ph__fail_devices(call, "one stream", stream->device, "the other", other->device);
    ph_event *event;
    PH_TRY(ph_event_create(&event, stream->device, NULL));
    ph_status status = ph_event_record(event, other);
    if (status == PH_OK)
        status = ph_stream_wait_event(stream, event);
    ph_event_destroy(event);
    return status;
}

/* The row for asking an event: an event recorded in a capture never completes, open or over. */
static ph_status check_asking(ph_event *event, ph__rule captured, ph__rule other, const char *call)
{
    PH_TRY(ph__event_check(event, NULL, call));
    uint64_t capture_id = atomic_load(&event->capture_id);
    if (capture_id == 0)
        return ph__rule_check(event->device, other);
    if (ph__capture_is_open(event->device, capture_id))
        return ph__rule_refuse(event->device, captured, capture_id);
    return ph__fail_native(
        PH_ERROR_CAPTURE, PH__R_CAPTURED_EVENT, ph__rules[captured].driver_call,
        "%s: the event was last recorded in a capture%s: it orders nodes of the graph and "
        "never completes; record it again, or use an external event to see replays",
        call,
        atomic_load(&event->foreign) ? " that this library did not begin" : ", which is over");
}

ph_status ph_event_query(bool *done, ph_event *event)
{
    static const char call[] = "ph_event_query";
    if (!done)
        return ph__fail_null(call, "done");
    *done = false;
    PH_TRY(check_asking(event, PH__RULE_EVENT_QUERY_CAPTURED, PH__RULE_EVENT_QUERY_OTHER, call));
    ph_capture_mode mode;
    ph__relaxed_begin(event->device, &mode);
    int result = event->device->driver->event_query(event->handle);
    ph__relaxed_end(event->device, mode);
    if (result != PH__R_OK && result != PH__R_NOT_READY)
        return ph__driver_fail(result, PH__NAME_EVENT_QUERY, "%s", call);
    *done = result == PH__R_OK;
    return PH_OK;
}

ph_status ph_event_synchronize(ph_event *event)
{
    static const char call[] = "ph_event_synchronize";
    PH_TRY(check_asking(event, PH__RULE_EVENT_SYNC_CAPTURED, PH__RULE_EVENT_SYNC_OTHER, call));
    ph_capture_mode mode;
    ph__relaxed_begin(event->device, &mode);
    int result = event->device->driver->event_synchronize(event->handle);
    ph__relaxed_end(event->device, mode);
    return result == PH__R_OK ? ph__failed_check(event->device, call)
                              : ph__driver_fail(result, PH__NAME_EVENT_SYNCHRONIZE, "%s", call);
}

static ph_status check_timed(ph_event *event, const char *which, const char *call)
{
    PH_TRY(
        check_asking(event, PH__RULE_EVENT_ELAPSED_CAPTURED, PH__RULE_EVENT_ELAPSED_OTHER, call));
    if (!event->timing)
        return ph__fail_native(PH_ERROR_ARGUMENT, PH__R_INVALID_HANDLE, PH__NAME_EVENT_ELAPSED_TIME,
                               "%s: %s was created without timing; set ph_event_options.timing",
                               call, which);
    if (!atomic_load(&event->recorded))
        return ph__fail_native(PH_ERROR_STATE, PH__R_INVALID_HANDLE, PH__NAME_EVENT_ELAPSED_TIME,
                               "%s: %s was never recorded", call, which);
    return PH_OK;
}

ph_status ph_event_elapsed(float *milliseconds, ph_event *start, ph_event *end)
{
    static const char call[] = "ph_event_elapsed";
    if (!milliseconds)
        return ph__fail_null(call, "milliseconds");
    *milliseconds = 0;
    PH_TRY(check_timed(start, "start", call));
    PH_TRY(check_timed(end, "end", call));
    if (start->device != end->device)
        return ph__fail_devices(call, "start", start->device, "end", end->device);
    int result = start->device->driver->event_elapsed(milliseconds, start->handle, end->handle);
    if (result == PH__R_NOT_READY)
        return ph__fail_native(PH_ERROR_STATE, result, PH__NAME_EVENT_ELAPSED_TIME,
                               "%s: an event is not complete; synchronize with it first", call);
    if (result == PH__R_INVALID_HANDLE)
        return ph__fail_native(
            PH_ERROR_STATE, result, PH__NAME_EVENT_ELAPSED_TIME,
            "%s: an event has not been recorded (an event node records when its graph is replayed)",
            call);
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_EVENT_ELAPSED_TIME, "%s", call);
}
