/* SPDX-License-Identifier: MIT */
/* driver/cuda/device/event.c: events. */
#include "driver/cuda/capture/submission.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/graph.h"

int ph__cuda_event_create(ph__drv_event **out, ph__drv_device *device, int flags)
{
    if (flags != PH__EVENT_TIMING && flags != PH__EVENT_DISABLE_TIMING)
        return PH__R_INVALID_VALUE;
    ph__drv_event *event = ph__calloc(1, sizeof *event);
    if (!event)
        return PH__R_OUT_OF_MEMORY;
    event->device = device;
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, device);
    if (result == PH__R_OK) {
        result = ph__cu.EventCreate(&event->handle, (unsigned)flags);
        ph__cuda_leave(&scope);
    }
    if (result != PH__R_OK) {
        ph__free(event);
        return result;
    }
    *out = event;
    return PH__R_OK;
}

/* The end of a capture inspects the events that were recorded in it. */
static void destroy_event(ph__drv_device *device, ph__cu_event event)
{
    bool open = atomic_load_explicit(&device->open_captures, memory_order_relaxed) != 0;
    if (open)
        ph__spin_lock(&device->order);
    (void)ph__cu.EventDestroy(event);
    if (open)
        ph__spin_unlock(&device->order);
}

void ph__cuda_event_destroy(ph__drv_event *event)
{
    ph__cuda_scope scope;
    if (!event)
        return;
    (void)ph__cuda_enter(&scope, event->device);
    destroy_event(event->device, event->handle);
    ph__cuda_leave(&scope);
    ph__free(event);
}

/* A record of an external event is a node of the capture; any other keeps where the stream
 * stands in it. */
static int record_event_flags(ph__drv_event *event, ph__drv_stream *stream, int flags)
{
    const ph__drv_node node = {.info = {.kind = PH_NODE_EVENT_RECORD, .event = event}};
    ph__cuda_submission submission;
    /* of a stream that is not capturing no spin lock is held: its queue may be full */
    ph__cuda_submission_begin(&submission, stream);
    int result = ph__cu.EventRecordWithFlags(event->handle, stream->handle, (unsigned)flags);
    if (result == PH__R_OK)
        atomic_store(&event->captured, submission.capturing && flags == PH__EVENT_RECORD_DEFAULT);
    if (submission.capturing && flags == PH__EVENT_RECORD_EXTERNAL)
        ph__cuda_submission_keep(&submission, stream, &node, result);
    else
        ph__cuda_submission_leave(&submission, stream);
    return result;
}

int ph__cuda_event_record(ph__drv_event *event, ph__drv_stream *stream, int flags)
{
    if ((flags != PH__EVENT_RECORD_DEFAULT && flags != PH__EVENT_RECORD_EXTERNAL) ||
        event->device != stream->device)
        return PH__R_INVALID_VALUE;
    if (stream->handle)
        return record_event_flags(event, stream, flags);
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, stream->device);
    if (result != PH__R_OK)
        return result;
    result = record_event_flags(event, stream, flags);
    ph__cuda_leave(&scope);
    return result;
}

int ph__cuda_event_query(ph__drv_event *event)
{
    return ph__cu.EventQuery(event->handle);
}

int ph__cuda_event_synchronize(ph__drv_event *event)
{
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, event->device);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.EventSynchronize(event->handle);
    ph__cuda_leave(&scope);
    return result;
}

int ph__cuda_event_elapsed(float *milliseconds, ph__drv_event *start, ph__drv_event *end)
{
    float elapsed = 0;
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, start->device);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.EventElapsedTime(&elapsed, start->handle, end->handle);
    ph__cuda_leave(&scope);
    if (result == PH__R_OK)
        *milliseconds = elapsed;
    return result;
}
