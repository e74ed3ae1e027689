/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_stream.c: streams and events of the software libcuda. */
#include "cuda_inside.h"
#include <stdio.h>
#include <stdlib.h>

static const ph__driver *const host = &ph__driver_host;

/* ---- handles that are gone ---- */
/* The host driver's events that cuEventDestroy has gone through, which nodes of graphs may hold
 * still, and streams that cuStreamDestroy has gone through. */
static pthread_mutex_t gone_lock = PTHREAD_MUTEX_INITIALIZER;
static ph__map gone;

static bool note_gone(const void *handle, bool is_gone)
{
    pthread_mutex_lock(&gone_lock);
    bool noted = true;
    if (is_gone)
        noted = ph__map_put(&gone, (uintptr_t)handle, (void *)(uintptr_t)handle);
    else
        (void)ph__map_remove(&gone, (uintptr_t)handle);
    pthread_mutex_unlock(&gone_lock);
    return noted;
}

static bool has_gone(const void *handle)
{
    pthread_mutex_lock(&gone_lock);
    bool is_gone = ph__map_get(&gone, (uintptr_t)handle) != NULL;
    pthread_mutex_unlock(&gone_lock);
    return is_gone;
}

bool fake_event_is_gone(const ph__host_event *event)
{
    return has_gone(event);
}

/* ---- streams ---- */
/* A stream that was destroyed crashes driver 580. */
int fake_target_of(fake_target *out, ph__cu_stream handle, const char *call)
{
    if (handle == NULL || handle == PH__CU_STREAM_LEGACY) {
        int result = fake_current(&out->context, call);
        if (!result)
            out->stream = host->stream_default(out->context->device);
        return result;
    }
    const struct CUstream_st *stream = fake_find(FAKE_STREAM, handle);
    if (!stream) {
        if (has_gone(handle)) {
            (void)fprintf(stderr, "fake libcuda: %s of a stream that was destroyed\n", call);
            abort();
        }
        ph__driver_set_reason("Stream handle is not valid");
        return PH__R_INVALID_HANDLE;
    }
    out->context = stream->object.context;
    out->stream = stream->stream;
    return 0;
}

FAKE(StreamCreateWithPriority, (ph__cu_stream * out, unsigned flags, int priority),
     (out, flags, priority))
{
    ph__cu_context context;
    int result = out ? fake_current(&context, "cuStreamCreateWithPriority") : PH__R_INVALID_VALUE;
    if (result)
        return result;
    struct CUstream_st *stream = ph__calloc(1, sizeof *stream);
    if (!stream)
        return PH__R_OUT_OF_MEMORY;
    stream->flags = flags;
    stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    result = host->stream_create(&stream->stream, context->device, (int)flags, stream->priority);
    if (!result && !fake_add(&stream->object, FAKE_STREAM, context, stream)) {
        host->stream_destroy(stream->stream);
        result = PH__R_OUT_OF_MEMORY;
    }
    if (result) {
        ph__free(stream);
        return result;
    }
    (void)note_gone(stream, false); /* the address of an earlier one */
    *out = stream;
    return 0;
}

FAKE(StreamDestroy, (ph__cu_stream handle), (handle))
{
    struct CUstream_st *stream = fake_remove(FAKE_STREAM, handle);
    if (!stream)
        return PH__R_INVALID_HANDLE;
    fake_graph_forget(fake_captured(stream->stream, false));
    host->stream_destroy(stream->stream);
    (void)note_gone(stream, true);
    ph__free(stream);
    return 0;
}

FAKE(StreamSynchronize, (ph__cu_stream stream), (stream))
{
    fake_target target;
    int result = fake_target_of(&target, stream, "cuStreamSynchronize");
    return result ? result : host->stream_synchronize(target.stream);
}

FAKE(StreamQuery, (ph__cu_stream stream), (stream))
{
    fake_target target;
    int result = fake_target_of(&target, stream, "cuStreamQuery");
    return result ? result : host->stream_query(target.stream);
}

/* 401 on driver 580. */
static bool is_external_outside(const fake_target *target, unsigned flags)
{
    ph__drv_capture capture = {.status = PH_CAPTURE_NONE};
    return flags == PH__EVENT_RECORD_EXTERNAL && host->capture_get(&capture, target->stream) == 0 &&
           capture.status == PH_CAPTURE_NONE;
}

FAKE(StreamWaitEvent, (ph__cu_stream stream, ph__cu_event event, unsigned flags),
     (stream, event, flags))
{
    fake_target target;
    int result = fake_target_of(&target, stream, "cuStreamWaitEvent");
    if (result)
        return result;
    if (is_external_outside(&target, flags))
        return PH__R_ILLEGAL_STATE;
    return fake_find(FAKE_EVENT, event)
               ? host->stream_wait_event(target.stream, event->event, (int)flags)
               : PH__R_INVALID_HANDLE;
}

FAKE(StreamGetCtx, (ph__cu_stream stream, ph__cu_context *context), (stream, context))
{
    fake_target target;
    uint64_t id = 0;
    int result = fake_target_of(&target, stream, "cuStreamGetCtx");
    if (!result && fake_find(FAKE_STREAM, stream))
        result = host->capture_id(&id, target.stream);
    if (!result && id)
        return host->stream_query(target.stream); /* 900 and the end of the capture, as measured */
    if (!result)
        *context = target.context;
    return result;
}

FAKE(StreamGetFlags, (ph__cu_stream stream, unsigned *flags), (stream, flags))
{
    fake_target target;
    int result = fake_target_of(&target, stream, "cuStreamGetFlags");
    if (!result)
        *flags = fake_find(FAKE_STREAM, stream) ? stream->flags : 0;
    return result;
}

FAKE(StreamGetPriority, (ph__cu_stream stream, int *priority), (stream, priority))
{
    fake_target target;
    int result = fake_target_of(&target, stream, "cuStreamGetPriority");
    if (!result)
        *priority = fake_find(FAKE_STREAM, stream) ? stream->priority : 0;
    return result;
}

/* ---- events ---- */
FAKE(EventCreate, (ph__cu_event * out, unsigned flags), (out, flags))
{
    ph__cu_context context;
    int result = out ? fake_current(&context, "cuEventCreate") : PH__R_INVALID_VALUE;
    if (result)
        return result;
    struct CUevent_st *event = ph__calloc(1, sizeof *event);
    if (!event)
        return PH__R_OUT_OF_MEMORY;
    /* 1: waits without spinning */
    result = host->event_create(&event->event, context->device, (int)flags & ~1);
    if (!result && !fake_add(&event->object, FAKE_EVENT, context, event)) {
        host->event_destroy(event->event);
        result = PH__R_OUT_OF_MEMORY;
    }
    if (result) {
        ph__free(event);
        return result;
    }
    (void)note_gone(event->event, false); /* the address of an earlier one */
    *out = event;
    return 0;
}

FAKE(EventDestroy, (ph__cu_event handle), (handle))
{
    struct CUevent_st *event = fake_remove(FAKE_EVENT, handle);
    if (!event)
        return PH__R_INVALID_HANDLE;
    (void)note_gone(event->event, true);
    host->event_destroy(event->event);
    ph__free(event);
    return 0;
}

FAKE(EventRecordWithFlags, (ph__cu_event event, ph__cu_stream stream, unsigned flags),
     (event, stream, flags))
{
    fake_target target;
    int result = fake_target_of(&target, stream, "cuEventRecordWithFlags");
    if (result)
        return result;
    if (!fake_find(FAKE_EVENT, event) || event->object.context != target.context)
        return PH__R_INVALID_HANDLE;
    if (is_external_outside(&target, flags))
        return PH__R_ILLEGAL_STATE;
    return host->event_record(event->event, target.stream, (int)flags);
}

FAKE(EventQuery, (ph__cu_event event), (event))
{
    return fake_find(FAKE_EVENT, event) ? host->event_query(event->event) : PH__R_INVALID_HANDLE;
}

FAKE(EventSynchronize, (ph__cu_event event), (event))
{
    return fake_find(FAKE_EVENT, event) ? host->event_synchronize(event->event)
                                        : PH__R_INVALID_HANDLE;
}

/* What is told instead of the time that passed; negative: nothing. */
static _Atomic(float) told_time = -1;

void fake_tell_time(float milliseconds)
{
    atomic_store(&told_time, milliseconds);
}

FAKE(EventElapsedTime, (float *milliseconds, ph__cu_event start, ph__cu_event end),
     (milliseconds, start, end))
{
    if (!milliseconds)
        return PH__R_INVALID_VALUE;
    if (!fake_find(FAKE_EVENT, start) || !fake_find(FAKE_EVENT, end))
        return PH__R_INVALID_HANDLE;
    int result = host->event_elapsed(milliseconds, start->event, end->event);
    float told = atomic_load(&told_time);
    if (!result && told >= 0)
        *milliseconds = told;
    return result;
}
