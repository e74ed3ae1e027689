/* SPDX-License-Identifier: MIT */
/* device/stream.c: streams: creating, destroying, waiting and asking. */
#include "base/alloc.h"
#include "base/log.h"
#include "device/capture/refuse.h"
#include "device/handles/captures.h"
#include "device/handles/device.h"
#include "device/handles/failed.h"
#include "device/wrap_cuda.h"
#include "driver/callback.h"
#include <string.h>

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

/* The call that runs an inline kernel goes on with its stream. */
static bool is_kept(void)
{
    if (!ph__driver_refuses_destroy())
        return false;
    ph__log(PH_LOG_WARNING, "ph_stream_destroy: %s; the stream is not destroyed",
            ph__driver_callback_words);
    return true;
}

void ph_stream_destroy(ph_stream *stream)
{
    if (!stream || stream->is_default || is_kept() || atomic_exchange(&stream->destroyed, true))
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

/* One that begins on the stream meanwhile neither waits nor is harmed. */
static ph_status synchronize_explicit(ph_stream *stream, const char *call)
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
        stream->is_default ? synchronize_default(stream, call) : synchronize_explicit(stream, call);
    ph__relaxed_end(stream->device, mode);
    return status == PH_OK ? ph__failed_check(stream->device, call) : status;
}

/* While stream->asks is shared. */
static ph_status query_explicit(bool *done, ph_stream *stream, const char *call)
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
    ph_status status = query_explicit(done, stream, call);
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
        return PH_OK; /* the default stream never captures */
    ph__drv_capture capture;
    int result = stream->device->driver->capture_get(&capture, stream->handle);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_STREAM_GET_CAPTURE_INFO, "%s", call);
    out->status = capture.status;
    out->id = capture.status == PH_CAPTURE_NONE ? 0 : capture.id;
    (void)ph__capture_is_foreign(stream, out->id); /* which is remembered */
    return PH_OK;
}
