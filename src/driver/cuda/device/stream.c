/* SPDX-License-Identifier: MIT */
/* driver/cuda/device/stream.c: streams: the library's own, the user's, and the legacy default
 * one. */
#include "driver/cuda/capture/submission.h"
#include "driver/cuda/device/leaving.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/graph.h"

ph__drv_stream *ph__cuda_stream_default(ph__drv_device *device)
{
    return &device->legacy;
}

static void link_stream(ph__drv_stream *stream)
{
    ph__drv_device *device = stream->device;
    ph__spin_lock(&device->order);
    stream->next = device->streams;
    stream->link = &device->streams;
    if (stream->next)
        stream->next->link = &stream->next;
    device->streams = stream;
    ph__spin_unlock(&device->order);
}

static void unlink_stream(ph__drv_stream *stream)
{
    ph__spin_lock(&stream->device->order);
    *stream->link = stream->next;
    if (stream->next)
        stream->next->link = stream->link;
    stream->link = NULL;
    ph__spin_unlock(&stream->device->order);
}

void ph__cuda_stream_destroy(ph__drv_stream *stream)
{
    ph__cuda_scope scope;
    if (!stream || stream == &stream->device->legacy)
        return;
    ph__drv_device *device = stream->device;
    ph__cuda_capture_drop(stream);
    unlink_stream(stream);
    (void)ph__cuda_enter(&scope, device);
    int mode = ph__cuda_relax();
    ph__cuda_stream_mark_work(stream);
    pthread_mutex_lock(&device->lock);
    stream->next_leaving = device->leaving;
    device->leaving = stream;
    ph__drv_stream *idle = ph__cuda_streams_remove_idle(device);
    pthread_mutex_unlock(&device->lock);
    ph__cuda_streams_free(idle);
    ph__cuda_unrelax(mode);
    ph__cuda_leave(&scope);
}

/* ---- creating ---- */

static int create_stream(ph__drv_stream **out, ph__drv_device *device, ph__cu_stream handle,
                         bool owned)
{
    ph__drv_stream *stream = ph__calloc(1, sizeof *stream);
    if (!stream)
        return PH__R_OUT_OF_MEMORY;
    stream->device = device;
    stream->handle = handle;
    stream->owned = owned;
    link_stream(stream);
    *out = stream;
    return PH__R_OK;
}

int ph__cuda_stream_create(ph__drv_stream **out, ph__drv_device *device, int flags, int priority)
{
    if (flags != PH__STREAM_BLOCKING && flags != PH__STREAM_NON_BLOCKING)
        return PH__R_INVALID_VALUE;
    ph__cuda_scope scope;
    ph__cu_stream handle = NULL;
    int result = ph__cuda_enter(&scope, device);
    if (result != PH__R_OK)
        return result;
    result =
        ph__cuda_report_memory(ph__cu.StreamCreateWithPriority(&handle, (unsigned)flags, priority));
    if (result == PH__R_OK) {
        result = create_stream(out, device, handle, true);
        if (result != PH__R_OK)
            (void)ph__cu.StreamDestroy(handle);
    }
    ph__cuda_leave(&scope);
    return result;
}

/* ---- the user's ---- */

static bool is_created(ph__cu_stream handle)
{
    return handle && handle != PH__CU_STREAM_LEGACY && handle != PH__CU_STREAM_PER_THREAD;
}

static int check_context(const ph__drv_device *device, ph__cu_stream handle)
{
    ph__cu_context context = NULL;
    int result = ph__cu.StreamGetCtx(handle, &context);
    if (result != PH__R_OK || context == device->context)
        return result;
    ph__driver_set_reason("the stream's context is not the primary one of cuda:%u, which is the "
                          "one that this library and "
                          "CUDA's runtime use",
                          (unsigned)device->ordinal);
    return PH__R_INVALID_CONTEXT;
}

static int read_stream(ph__cu_stream handle, const ph__drv_device *device, int *priority,
                       unsigned *flags)
{
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, device);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.StreamGetPriority(handle, priority);
    if (result == PH__R_OK)
        result = ph__cu.StreamGetFlags(handle, flags);
    ph__cuda_leave(&scope);
    return result;
}

/* cuStreamGetCtx would kill the capture. */
static int check_idle(ph__cu_stream stream)
{
    int status = PH__CU_CAPTURE_STATUS_NONE;
    int result = ph__cu.StreamIsCapturing(stream, &status);
    if (result != PH__R_OK || status == PH__CU_CAPTURE_STATUS_NONE)
        return result;
    ph__driver_set_reason(
        "the stream is capturing, and its context cannot be read then; the call did not "
        "touch that capture; wrap "
        "the stream before it begins");
    return PH__R_CAPTURE_UNSUPPORTED;
}

int ph__cuda_stream_wrap(ph__drv_stream **out, ph__drv_device *device, void *native, int *priority,
                         int *flags)
{
    ph__cu_stream handle = native;
    int its_priority = 0;
    unsigned its_flags = 0;
    if (!is_created(handle))
        return PH__R_INVALID_HANDLE;
    int result = check_idle(handle);
    if (result == PH__R_CAPTURE_UNSUPPORTED && (*flags & PH__STREAM_KNOWN)) {
        its_flags = PH__STREAM_NON_BLOCKING;
        result = PH__R_OK;
    } else {
        if (result == PH__R_OK)
            result = check_context(device, handle);
        if (result == PH__R_OK)
            result = read_stream(handle, device, &its_priority, &its_flags);
    }
    if (result == PH__R_OK)
        result = create_stream(out, device, handle, false);
    if (result != PH__R_OK)
        return result;
    *priority = its_priority;
    *flags = its_flags & PH__STREAM_NON_BLOCKING ? PH__STREAM_NON_BLOCKING : PH__STREAM_BLOCKING;
    return PH__R_OK;
}

static int device_of(ph__cu_device *out, ph__cu_context context)
{
    ph__cu_context popped;
    int result = ph__cu.CtxPushCurrent(context);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.CtxGetDevice(out);
    (void)ph__cu.CtxPopCurrent(&popped);
    return result;
}

static int ordinal_of(uint32_t *ordinal, ph__cu_device number)
{
    int count = 0;
    int result = ph__cu.DeviceGetCount(&count);
    for (int i = 0; result == PH__R_OK && i < count; i++) {
        ph__cu_device at;
        result = ph__cu.DeviceGet(&at, i);
        if (result == PH__R_OK && at == number) {
            *ordinal = (uint32_t)i;
            return PH__R_OK;
        }
    }
    return result == PH__R_OK ? PH__R_INVALID_DEVICE : result;
}

int ph__cuda_stream_ordinal(uint32_t *ordinal, void *native)
{
    ph__cu_context context = NULL;
    ph__cu_device number = 0;
    int result = ph__cuda_load();
    if (result != PH__R_OK)
        return result;
    if (!is_created(native))
        return PH__R_INVALID_HANDLE;
    result = check_idle(native);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.StreamGetCtx(native, &context);
    if (result == PH__R_OK)
        result = device_of(&number, context);
    return result == PH__R_OK ? ordinal_of(ordinal, number) : result;
}

void *ph__cuda_stream_native(ph__drv_stream *stream)
{
    return stream->handle;
}

/* ---- waiting ---- an explicit stream needs no current context, the legacy one does. */

static int on_stream(ph__drv_stream *stream, int (*call)(ph__cu_stream stream))
{
    if (stream->handle)
        return call(stream->handle);
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, stream->device);
    if (result != PH__R_OK)
        return result;
    result = call(NULL);
    ph__cuda_leave(&scope);
    return result;
}

static int make_mark(ph__cu_event *event, const ph__drv_device *device)
{
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, device);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.EventCreate(event, PH__EVENT_DISABLE_TIMING);
    ph__cuda_leave(&scope);
    return result;
}

/* An event behind the stream's work, in no capture mode's way: the device's, where no other wait
 * has it. */
static int record_mark(ph__cu_event *event, ph__drv_stream *stream)
{
    *event = atomic_exchange(&stream->device->mark, NULL);
    int result = *event ? PH__R_OK : make_mark(event, stream->device);
    if (result != PH__R_OK)
        return result;
    return ph__cu.EventRecordWithFlags(*event, stream->handle, PH__EVENT_RECORD_DEFAULT);
}

/* The next wait has it, if this one was as it should be. */
static void keep_mark(ph__drv_device *device, ph__cu_event event, int result)
{
    if (result == PH__R_OK)
        event = atomic_exchange(&device->mark, event);
    if (event)
        (void)ph__cu.EventDestroy(event);
}

/* The question is what the thread's capture mode and other captures may refuse, as CUDA refuses
 * the wait. */
static inline __attribute__((always_inline)) int ask(bool *busy, ph__cu_event *event,
                                                     ph__drv_stream *stream, bool harmless)
{
    ph__cuda_submission submission;
    int result = PH__R_CAPTURE_UNSUPPORTED;
    ph__cuda_submission_begin(&submission, stream);
    if (!submission.capturing)
        result = ph__cu.StreamQuery(stream->handle);
    else if (!harmless)
        result = ph__cu.StreamSynchronize(stream->handle); /* fails at once */
    *busy = result == PH__R_NOT_READY;
    if (*busy) {
        int mode = ph__cuda_relax();
        result = record_mark(event, stream);
        ph__cuda_unrelax(mode);
    }
    ph__cuda_submission_leave(&submission, stream);
    return result;
}

/* Waits for an event, as a capture may begin on the stream meanwhile. Inline, so that backtraces
 * name the entry. */
static inline __attribute__((always_inline)) int wait_for_work(ph__drv_stream *stream,
                                                               bool harmless)
{
    ph__drv_device *device = stream->device;
    ph__cu_event event = NULL;
    bool busy;
    int result = ask(&busy, &event, stream, harmless);
    if (!busy)
        return result;
    int mode = ph__cuda_relax();
    if (result == PH__R_OK)
        result = ph__cu.EventSynchronize(event);
    keep_mark(device, event, result);
    ph__cuda_unrelax(mode);
    return result;
}

int ph__cuda_stream_wait(ph__drv_stream *stream)
{
    return wait_for_work(stream, true);
}

int ph__cuda_stream_synchronize(ph__drv_stream *stream)
{
    return stream->handle ? wait_for_work(stream, false)
                          : on_stream(stream, ph__cu.StreamSynchronize);
}

int ph__cuda_stream_query(ph__drv_stream *stream)
{
    ph__cuda_submission submission;
    ph__cuda_submission_begin(&submission, stream);
    int result = on_stream(stream, ph__cu.StreamQuery);
    ph__cuda_submission_leave(&submission, stream);
    return result;
}

/* The wait by which a stream that is in no capture joins the event's. */
static int join_event(ph__drv_stream *stream, const ph__drv_event *event, int flags)
{
    ph__alone_lock(&stream->calls);
    ph__spin_lock(&stream->device->order);
    int result = ph__cu.StreamWaitEvent(stream->handle, event->handle, (unsigned)flags);
    ph__spin_unlock(&stream->device->order);
    ph__alone_unlock(&stream->calls);
    return result;
}

/* A wait for an external event is a node of the capture; any other may bring the stream into
 * one. */
static int wait_on_stream(ph__drv_stream *stream, ph__drv_event *event, int flags)
{
    const ph__drv_node node = {.info = {.kind = PH_NODE_EVENT_WAIT, .event = event}};
    ph__cuda_submission submission;
    if (stream->handle && atomic_load(&event->captured))
        return join_event(stream, event, flags);
    /* of a stream that is not capturing no spin lock is held: its queue may be full */
    ph__cuda_submission_begin(&submission, stream);
    int result = ph__cu.StreamWaitEvent(stream->handle, event->handle, (unsigned)flags);
    if (submission.capturing && flags == PH__EVENT_RECORD_EXTERNAL)
        ph__cuda_submission_keep(&submission, stream, &node, result);
    else
        ph__cuda_submission_leave(&submission, stream);
    return result;
}

int ph__cuda_stream_wait_event(ph__drv_stream *stream, ph__drv_event *event, int flags)
{
    if (flags != PH__EVENT_RECORD_DEFAULT && flags != PH__EVENT_RECORD_EXTERNAL)
        return PH__R_INVALID_VALUE;
    if (stream->handle)
        return wait_on_stream(stream, event, flags);
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, stream->device);
    if (result != PH__R_OK)
        return result;
    result = wait_on_stream(stream, event, flags);
    ph__cuda_leave(&scope);
    return result;
}
