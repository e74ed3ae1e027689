/* SPDX-License-Identifier: MIT */
/* device/stream.c: streams: lifetimes, waiting, and the capture that they are in. */
#include "device/stream.h"
#include "base/alloc.h"
#include <stddef.h>
#include <string.h>

uint64_t ph__stream_next_id(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

void ph__stream_init_default(ph_device *device)
{
    ph_stream *stream = &device->default_stream;
    stream->device = device;
    stream->handle = device->driver->stream_default(device->handle);
    stream->id = ph__stream_next_id();
    stream->is_default = true;
    stream->blocking = true;
    atomic_init(&stream->references, 1);
}

ph_status ph__stream_check(const ph_stream *stream, const char *call)
{
    if (!stream)
        return ph__fail_null(call, "stream");
    if (atomic_load_explicit(&stream->destroyed, memory_order_relaxed))
        return ph__fail_native(PH_ERROR_ARGUMENT, PH__R_INVALID_HANDLE,
                               PH__NAME_STREAM_GET_CAPTURE_INFO, "%s: the stream was destroyed",
                               call);
    return ph__device_check(stream->device, call);
}

static int priority_of(const ph_stream_options *options)
{
    return options == NULL || options->priority == (int)PH_ZERO ? 0 : options->priority;
}

static int clamp_priority(const ph_device *device, int priority)
{
    if (priority > device->priority_lowest)
        return device->priority_lowest;
    if (priority < device->priority_highest)
        return device->priority_highest;
    return priority;
}

ph_status ph_stream_create(ph_stream **out, ph_device *device, const ph_stream_options *options)
{
    static const char call[] = "ph_stream_create";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    if (options && !PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_stream_options");
    PH_TRY(ph__rule_check(device, PH__RULE_STREAM_CREATE));
    ph_stream *stream = ph__calloc(1, sizeof *stream);
    if (!stream)
        return ph__fail_host_memory(call, "the stream");
    stream->blocking = options && options->blocking;
    stream->priority = clamp_priority(device, priority_of(options));
    ph__drv_stream *handle = NULL;
    int result = device->driver->stream_create(
        &handle, device->handle, stream->blocking ? PH__STREAM_BLOCKING : PH__STREAM_NON_BLOCKING,
        stream->priority);
    if (result != PH__R_OK) {
        ph__free(stream);
        return ph__driver_fail(result, PH__NAME_STREAM_CREATE_WITH_PRIORITY, "%s", call);
    }
    stream->handle = handle;
    stream->id = ph__stream_next_id();
    stream->device = ph_device_retain(device);
    atomic_init(&stream->references, 1);
    *out = stream;
    return PH_OK;
}

ph_stream *ph__stream_retain(ph_stream *stream)
{
    atomic_fetch_add_explicit(&stream->references, 1, memory_order_relaxed);
    return stream;
}

static void release_now(ph__deferred *item)
{
    ph_stream *stream = (ph_stream *)((char *)item - offsetof(ph_stream, release));
    /* What stands for a wrapped one may be the device's own default stream. */
    if (stream->handle != stream->device->default_stream.handle)
        stream->device->driver->stream_destroy(stream->handle);
    ph__free(stream);
}

void ph__stream_release(ph_stream *stream)
{
    if (atomic_fetch_sub_explicit(&stream->references, 1, memory_order_acq_rel) != 1)
        return;
    stream->release.fn = release_now;
    if (ph__stream_capture_id(stream) != 0)
        ph__device_defer(stream->device, &stream->release);
    else
        release_now(&stream->release);
}

/* The capture that began on the stream, if one is open. */
static ph__capture *capture_of_origin(ph_stream *stream)
{
    ph_device *device = stream->device;
    ph__capture *found = NULL;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++)
        if (device->captures.at[i]->stream == stream)
            found = device->captures.at[i];
    pthread_mutex_unlock(&device->capture_lock);
    return found;
}

void ph_stream_destroy(ph_stream *stream)
{
    if (!stream || stream->is_default || atomic_exchange(&stream->destroyed, true))
        return;
    ph_device *device = stream->device;
    if (device->forked)
        return;
    ph_error saved;
    ph__error_save(&saved);
    ph__capture *capture = capture_of_origin(stream);
    if (capture)
        capture->lost(capture);
    ph__drv_stream *theirs = NULL;
    if (stream->wrapped && atomic_load(&stream->references) > 1)
        theirs = ph__stream_replace(stream);
    for (int slot = 0; slot < PH__ATTACH_COUNT; slot++) {
        ph__attachment *attachment = ph__device_attached(device, slot);
        if (attachment && attachment->stream_destroyed)
            attachment->stream_destroyed(attachment, stream);
    }
    device->driver->stream_destroy(theirs);
    ph__stream_release(stream);
    ph__error_restore(&saved);
    ph_device_release(device);
}

ph_device *ph_stream_device(const ph_stream *stream)
{
    return stream ? stream->device : NULL;
}

int ph_stream_priority(const ph_stream *stream)
{
    return stream ? stream->priority : 0;
}

static int find_capture(uint64_t *out, const ph_stream *stream)
{
    const ph_device *device = stream->device;
    *out = 0;
    if (stream->is_default ||
        (atomic_load_explicit(&device->open_captures, memory_order_acquire) == 0 &&
         !atomic_load_explicit(&device->foreign, memory_order_relaxed)))
        return PH__R_OK;
    return device->driver->capture_id(out, stream->handle);
}

uint64_t ph__stream_capture_id_locked(const ph_stream *stream)
{
    uint64_t id;
    (void)find_capture(&id, stream); /* 0 then: who must know asks ph__stream_find_capture */
    return id;
}

bool ph__stream_is_free(const ph_stream *stream)
{
    uint64_t id;
    return find_capture(&id, stream) == PH__R_OK && id == 0;
}

uint64_t ph__stream_capture_id(const ph_stream *stream)
{
    ph__stream_hold(stream);
    uint64_t id = ph__stream_capture_id_locked(stream);
    ph__stream_unhold(stream);
    return id;
}

ph_status ph__stream_find_capture(uint64_t *out, const ph_stream *stream, const char *call)
{
    int result = find_capture(out, stream);
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_STREAM_GET_CAPTURE_INFO,
                                                "%s: asking whether the stream is capturing", call);
}

/* One that begins on the stream meanwhile neither waits nor is harmed. */
static ph_status synchronize(ph_stream *stream, const char *call)
{
    uint64_t capturing;
    int result = PH__R_OK;
    PH_TRY(ph__stream_find_capture(&capturing, stream, call));
    if (capturing == 0) {
        PH_TRY(ph__rule_check(stream->device, PH__RULE_STREAM_SYNC_OTHER));
        result = stream->device->driver->stream_wait(stream->handle);
        if (result == PH__R_CAPTURE_UNSUPPORTED)
            PH_TRY(ph__stream_find_capture(&capturing, stream, call));
    }
    if (capturing != 0)
        return ph__rule_refuse(stream->device, PH__RULE_STREAM_SYNC_CAPTURING, capturing);
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_STREAM_SYNCHRONIZE, "%s", call);
}

static ph_status synchronize_default(ph_stream *stream, const char *call)
{
    PH_TRY(ph__rule_check(stream->device, PH__RULE_STREAM_SYNC_OTHER));
    int result = stream->device->driver->stream_synchronize(stream->handle);
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_STREAM_SYNCHRONIZE, "%s", call);
}

ph_status ph_stream_synchronize(ph_stream *stream)
{
    static const char call[] = "ph_stream_synchronize";
    ph_capture_mode mode;
    PH_TRY(ph__stream_check(stream, call));
    ph__relaxed_begin(stream->device, &mode);
    ph_status status =
        stream->is_default ? synchronize_default(stream, call) : synchronize(stream, call);
    ph__relaxed_end(stream->device, mode);
    return status;
}

/* While stream->asks is shared. */
static ph_status query_asked(bool *done, ph_stream *stream, const char *call)
{
    uint64_t capturing;
    PH_TRY(ph__stream_find_capture(&capturing, stream, call));
    if (capturing)
        return ph__rule_refuse(stream->device, PH__RULE_STREAM_QUERY_CAPTURING, capturing);
    PH_TRY(ph__rule_check(stream->device, PH__RULE_STREAM_QUERY_OTHER));
    ph_capture_mode mode;
    ph__relaxed_begin(stream->device, &mode);
    int result = stream->device->driver->stream_query(stream->handle);
    ph__relaxed_end(stream->device, mode);
    if (result != PH__R_OK && result != PH__R_NOT_READY)
        return ph__driver_fail(result, PH__NAME_STREAM_QUERY, "%s", call);
    *done = result == PH__R_OK;
    return PH_OK;
}

ph_status ph_stream_query(bool *done, ph_stream *stream)
{
    static const char call[] = "ph_stream_query";
    if (!done)
        return ph__fail_null(call, "done");
    *done = false;
    PH_TRY(ph__stream_check(stream, call));
    ph__shared_lock(&stream->asks);
    ph_status status = query_asked(done, stream, call);
    ph__shared_unlock(&stream->asks);
    return status;
}

ph_status ph_stream_get_capture_info(ph_capture_info *out, const ph_stream *stream)
{
    static const char call[] = "ph_stream_get_capture_info";
    if (!out)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    PH_TRY(ph__stream_check(stream, call));
    if (stream->is_default)
        return PH_OK; /* it never captures */
    ph__drv_capture capture;
    int result = stream->device->driver->capture_get(&capture, stream->handle);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_STREAM_GET_CAPTURE_INFO, "%s", call);
    out->status = capture.status;
    out->id = capture.status == PH_CAPTURE_NONE ? 0 : capture.id;
    (void)ph__capture_is_foreign(stream, out->id); /* which is remembered */
    return PH_OK;
}

bool ph_stream_is_capturing(const ph_stream *stream)
{
    return stream && ph__stream_capture_id(stream) != 0;
}
