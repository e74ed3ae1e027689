/* SPDX-License-Identifier: MIT */
/* device/capture/capture.c: beginning and ending captures. */
#include "device/capture/capture.h"
#include "base/line.h"
#include "base/sync.h"
#include "device/annotate/marks.h"
#include "device/capture/culprit.h"
#include "device/capture/forks.h"
#include "device/capture/legacy.h"
#include "device/capture/refuse.h"
#include "device/handles/device.h"
#include "device/handles/event.h"
#include "driver/suspects.h"
#include <string.h>
#include <unistd.h>

static ph_status prepare_attachments(ph_device *device, ph_stream *stream)
{
    for (int slot = 0; slot < PH__ATTACH_COUNT; slot++) {
        ph__attachment *attachment = ph__device_attached(device, slot);
        if (attachment && attachment->before_capture)
            PH_TRY(attachment->before_capture(attachment, stream));
    }
    return PH_OK;
}

/* Under the lock: whoever meets the capture at the driver and looks for it here finds it, with
 * its pool. */
static int begin_locked(const char **driver_call, ph__capture *capture, ph_stream *stream)
{
    const ph__driver *driver = stream->device->driver;
    ph__drv_capture seen;
    *driver_call = PH__NAME_STREAM_BEGIN_CAPTURE;
    int result = driver->capture_begin(stream->handle, capture->mode);
    if (result != PH__R_OK)
        return result;
    *driver_call = PH__NAME_STREAM_GET_CAPTURE_INFO;
    result = driver->capture_get(&seen, stream->handle);
    if (result != PH__R_OK)
        return result;
    capture->id = seen.id;
    if (capture->begun)
        capture->begun(capture);
    return PH__R_OK;
}

static ph_status begin_at_driver(ph__capture *capture, ph_stream *stream, const char *call)
{
    ph_device *device = stream->device;
    const char *driver_call;
    pthread_mutex_lock(&device->capture_lock);
    int result = begin_locked(&driver_call, capture, stream);
    pthread_mutex_unlock(&device->capture_lock);
    if (result == PH__R_OK)
        return PH_OK;
    if (strcmp(driver_call, PH__NAME_STREAM_BEGIN_CAPTURE) != 0) {
        ph_status status =
            ph__driver_fail(result, driver_call, "%s: reading the capture's id", call);
        device->driver->capture_drop(stream->handle);
        return status;
    }
    if (result == PH__R_OUT_OF_MEMORY)
        return ph__fail_host_memory(call, "the capture");
    if (result == PH__R_ILLEGAL_STATE) /* another thread was first */
        PH_TRY(ph__capture_check_free(stream, call));
    return ph__driver_fail(result, driver_call, "%s", call);
}

/* "a global capture, id 7, begun by this thread". */
static void describe_open(char *out, size_t size, const ph_stream *stream, uint64_t id)
{
    const char *mode = NULL, *thread = "another";
    ph_device *device = stream->device;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count && !mode; i++) {
        const ph__capture *capture = device->captures.at[i];
        if (capture->id != id)
            continue;
        mode = ph__capture_mode_name(capture->mode);
        thread = capture->owner_thread == ph__thread_id() ? "this" : "another";
    }
    pthread_mutex_unlock(&device->capture_lock);
    if (mode)
        ph__line_format(out, size, "a %s capture, id %llu, begun by %s thread", mode,
                        (unsigned long long)id, thread);
    else
        ph__line_format(out, size, "a capture%s, id %llu",
                        ph__capture_is_foreign(stream, id) ? " that this library did not begin"
                                                           : "",
                        (unsigned long long)id);
}

ph_status ph__capture_check_free(const ph_stream *stream, const char *call)
{
    uint64_t open_id;
    char which[96];
    PH_TRY(ph__stream_find_capture(&open_id, stream, call));
    if (open_id == 0)
        return PH_OK;
    describe_open(which, sizeof which, stream, open_id);
    return ph__fail_native(
        PH_ERROR_CAPTURE, PH__R_ILLEGAL_STATE, PH__NAME_STREAM_BEGIN_CAPTURE,
        "%s: the stream is capturing already (%s); the call did not touch that capture: end it "
        "first or use another stream",
        call, which);
}

/* Registered before it begins, so that no other thread's call slips to the driver in between. */
static ph_status open_capture(ph__capture *capture, ph_stream *stream, const char *call)
{
    ph__alone_lock(&stream->device->syncs);
    bool registered = ph__capture_register(stream->device, capture);
    ph__alone_unlock(&stream->device->syncs);
    if (!registered)
        return ph__fail_host_memory(call, "the capture");
    if (stream->blocking)
        ph__legacy_wait(stream->device);
    ph__alone_lock(&stream->asks);
    ph_status status = begin_at_driver(capture, stream, call);
    ph__alone_unlock(&stream->asks);
    if (status == PH_OK && !ph__marks_open(capture)) {
        status = ph__fail_host_memory(call, "the annotations of the capture");
        stream->device->driver->capture_drop(stream->handle);
    }
    if (status != PH_OK) {
        ph__capture_unregister(stream->device, capture);
        ph__capture_release_kernels(capture); /* of launches that came in meanwhile */
        ph__events_release(&capture->events);
    }
    return status;
}

ph_status ph__capture_begin(ph__capture *capture, ph_stream *stream, ph_capture_mode mode,
                            const char *call)
{
    PH_TRY(ph__stream_check(stream, call));
    ph_device *device = stream->device;
    if (stream->is_default)
        return ph__fail_native(PH_ERROR_DEFAULT_STREAM, PH__R_CAPTURE_UNSUPPORTED,
                               PH__NAME_STREAM_BEGIN_CAPTURE,
                               "%s: graphs must be captured on a stream other than the legacy "
                               "default stream; create one with "
                               "ph_stream_create (replaying on the default stream is fine)",
                               call);
    PH_TRY(ph__capture_check_free(stream, call));
    PH_TRY(prepare_attachments(device, stream));
    capture->id = 0;
    capture->mode = mode;
    capture->owner_thread = ph__thread_id();
    capture->process = (int)getpid();
    capture->device = device;
    capture->stream = ph__stream_retain(stream);
    atomic_store(&capture->has_blocking, stream->blocking);
    capture->kernels = (ph__map){0};
    capture->events = (ph__map){0};
    capture->marks = NULL;
    capture->outside = 0;
    atomic_store(&capture->reported, false);
    ph__captures_watch_exit();
    ph__suspects_open();
    capture->suspects_since = ph__suspects_next();
    ph_status status = open_capture(capture, stream, call);
    if (status != PH_OK) {
        ph__suspects_close();
        ph__stream_release(stream);
    }
    return status;
}

static ph_status fail_unjoined(ph__capture *capture, const char *call)
{
    char which[200];
    ph__forks_describe(which, sizeof which, capture);
    return ph__fail_native(
        PH_ERROR_CAPTURE, PH__R_CAPTURE_UNJOINED, PH__NAME_STREAM_END_CAPTURE,
        "%s: a forked stream has work that the capture's stream does not wait for "
        "(%d, %s): %s; join it before the end, with ph_stream_wait_stream(the capture's "
        "stream, the forked one)",
        call, PH__R_CAPTURE_UNJOINED, ph__result_name(PH__R_CAPTURE_UNJOINED), which);
}

static ph_status fail_end(int result, ph__capture *capture, const char *call)
{
    if (result == PH__R_OUT_OF_MEMORY)
        return ph__fail_host_memory(call, "the captured graph");
    if (result == PH__R_CAPTURE_INVALIDATED)
        return ph__capture_fail_dead(capture, call);
    if (result == PH__R_CAPTURE_UNJOINED)
        return fail_unjoined(capture, call);
    return ph__driver_fail(result, PH__NAME_STREAM_END_CAPTURE,
                           "%s: the capture is dropped and the stream can capture again", call);
}

static void drop_capture(const ph__capture *capture)
{
    ph__mutex_lock(&capture->device->ending);
    capture->device->driver->capture_drop(capture->stream->handle);
    ph__mutex_unlock(&capture->device->ending);
}

static ph_status end_at_driver(ph__drv_graph **graph, ph__capture *capture, const char *call)
{
    const ph__driver *driver = capture->device->driver;
    ph__mutex_lock(&capture->device->ending);
    int result = driver->capture_end(graph, capture->stream->handle);
    ph__mutex_unlock(&capture->device->ending);
    if (result == PH__R_OK && *graph)
        return PH_OK;
    if (result == PH__R_OK)
        result = PH__R_CAPTURE_INVALIDATED;
    *graph = NULL;
    ph_status status = fail_end(result, capture, call);
    ph_error saved;
    ph__error_save(&saved);
    drop_capture(capture);
    if (result == PH__R_CAPTURE_INVALIDATED)
        ph__capture_report(capture);
    ph__error_restore(&saved);
    return status;
}

/* A capture that is dropped dead still has a culprit, which its user may never have been told. */
static void drop_at_driver(ph__capture *capture)
{
    const ph__driver *driver = capture->device->driver;
    ph__drv_capture seen;
    bool dead = driver->capture_get(&seen, capture->stream->handle) == PH__R_OK &&
                seen.status == PH_CAPTURE_INVALIDATED;
    drop_capture(capture);
    if (dead)
        ph__capture_report(capture);
}

ph_status ph__capture_end(ph__drv_graph **graph, ph__capture *capture, bool drop, const char *call)
{
    ph_device *device = capture->device;
    ph_status status = PH_OK;
    *graph = NULL;
    if (!drop && capture->mode != PH_CAPTURE_RELAXED && capture->owner_thread != ph__thread_id())
        return ph__fail_native(
            PH_ERROR_CAPTURE, PH__R_CAPTURE_WRONG_THREAD, PH__NAME_STREAM_END_CAPTURE,
            "%s: ended by another thread than the one that began the capture, which is not "
            "relaxed: 908, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: its work is lost; call "
            "ph_graph_reset, capture again, and end on the "
            "thread of the begin (or use PH_CAPTURE_RELAXED)",
            call);
    ph__marks_close(capture);
    if (drop)
        drop_at_driver(capture);
    else
        status = end_at_driver(graph, capture, call);
    ph__suspects_close();
    uint64_t id = capture->id;
    ph_device_retain(device);
    ph__capture_unregister(device, capture);
    ph__vec_free(&capture->forks);
    ph__map_free(&capture->fork_of);
    for (int slot = 0; slot < PH__ATTACH_COUNT; slot++) {
        ph__attachment *attachment = ph__device_attached(device, slot);
        if (attachment && attachment->capture_ended)
            attachment->capture_ended(attachment, id);
    }
    ph__stream_release(capture->stream);
    capture->stream = NULL;
    ph_device_release(device);
    return status;
}
