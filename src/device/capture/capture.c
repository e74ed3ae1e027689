/* SPDX-License-Identifier: MIT */
/* device/capture/capture.c: the captures that are open on a device: beginning, ending, and
 * finding them. */
#include "base/alloc.h"
#include "base/line.h"
#include "base/sync.h"
#include "device/annotate/annotate.h"
#include "device/stream.h"
#include "driver/suspects.h"
#include <string.h>
#include <unistd.h>

static ph_status before_capture(ph_device *device, ph_stream *stream)
{
    for (int slot = 0; slot < PH__ATTACH_COUNT; slot++) {
        ph__attachment *attachment = ph__device_attached(device, slot);
        if (attachment && attachment->before_capture)
            PH_TRY(attachment->before_capture(attachment, stream));
    }
    return PH_OK;
}

static bool register_capture(ph_device *device, ph__capture *capture)
{
    pthread_mutex_lock(&device->capture_lock);
    bool pushed = ph__vec_push(&device->captures, capture);
    if (pushed) {
        atomic_fetch_add(&device->open_captures, 1);
        atomic_fetch_add(&device->open_checks, capture->checks);
    }
    pthread_mutex_unlock(&device->capture_lock);
    return pushed;
}

/* Takes the capture off the list; runs what waited for the last one to end. Launches that it
 * recorded may still be about to have their kernels kept: it is found for them until its kernels
 * are released. */
static void unregister_capture(ph_device *device, ph__capture *capture)
{
    ph__deferred *due = NULL;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++)
        if (device->captures.at[i] == capture)
            device->captures.at[i] = device->captures.at[--device->captures.count];
    capture->next_reading = device->reading;
    device->reading = capture;
    atomic_fetch_sub(&device->open_checks, capture->checks);
    if (atomic_fetch_sub(&device->open_captures, 1) == 1) {
        due = device->deferred_first;
        device->deferred_first = device->deferred_last = NULL;
    }
    pthread_mutex_unlock(&device->capture_lock);
    while (due) {
        ph__deferred *next = due->next;
        due->fn(due);
        due = next;
    }
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

bool ph_device_is_capturing(const ph_device *device)
{
    if (!device || atomic_load_explicit(&device->open_captures, memory_order_acquire) == 0)
        return false;
    ph_device *known = (ph_device *)(uintptr_t)device; /* for its lock alone */
    uint64_t me = ph__thread_id();
    bool found = false;
    pthread_mutex_lock(&known->capture_lock);
    for (size_t i = 0; i < known->captures.count && !found; i++)
        found = known->captures.at[i]->owner_thread == me;
    pthread_mutex_unlock(&known->capture_lock);
    return found;
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
    bool registered = register_capture(stream->device, capture);
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
        unregister_capture(stream->device, capture);
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
    PH_TRY(before_capture(device, stream));
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

static ph_status end_at_driver(ph__drv_graph **graph, ph__capture *capture, const char *call)
{
    const ph__driver *driver = capture->device->driver;
    int result = driver->capture_end(graph, capture->stream->handle);
    if (result == PH__R_OK && *graph)
        return PH_OK;
    if (result == PH__R_OK)
        result = PH__R_CAPTURE_INVALIDATED;
    *graph = NULL;
    ph_status status = fail_end(result, capture, call);
    ph_error saved;
    ph__error_save(&saved);
    driver->capture_drop(capture->stream->handle);
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
    driver->capture_drop(capture->stream->handle);
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
    unregister_capture(device, capture);
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

void ph__capture_release_kernels(ph__capture *capture)
{
    size_t cursor = 0;
    uint64_t key;
    void *kernel;
    pthread_mutex_lock(&capture->device->capture_lock);
    for (ph__capture **at = &capture->device->reading; *at; at = &(*at)->next_reading)
        if (*at == capture) {
            *at = capture->next_reading;
            break;
        }
    pthread_mutex_unlock(&capture->device->capture_lock);
    while (ph__map_next(&capture->kernels, &cursor, &key, &kernel))
        ph_kernel_release(kernel);
    ph__map_free(&capture->kernels);
}

bool ph__capture_is_open(ph_device *device, uint64_t capture_id)
{
    bool open = false;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++)
        open = open || device->captures.at[i]->id == capture_id;
    pthread_mutex_unlock(&device->capture_lock);
    return open;
}

/* One that is just beginning has no id here yet. Ours are over at the driver before they leave
 * the list: what is not on it and still seen on the stream is somebody else's. */
bool ph__capture_is_foreign(const ph_stream *stream, uint64_t capture_id)
{
    ph_device *device = stream->device;
    ph__drv_capture again;
    bool ours = false;
    if (capture_id == 0)
        return false;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count && !ours; i++)
        ours = device->captures.at[i]->id == capture_id || device->captures.at[i]->id == 0;
    bool foreign = !ours && device->driver->capture_get(&again, stream->handle) == PH__R_OK &&
                   again.status != PH_CAPTURE_NONE && again.id == capture_id;
    pthread_mutex_unlock(&device->capture_lock);
    if (foreign)
        atomic_store(&device->foreign, true);
    return foreign;
}

void *ph__capture_owner_locked(const ph_device *device, uint64_t capture_id)
{
    for (size_t i = 0; i < device->captures.count; i++)
        if (device->captures.at[i]->id == capture_id)
            return device->captures.at[i]->owner;
    return NULL;
}

/* Whoever reads the captured graph finds the kernel by its handle: until then it must not go,
 * though its user lets go of it. Under capture_lock. */
static bool retain_kernel(ph__capture *capture, ph_kernel *kernel)
{
    uint64_t key = (uintptr_t)kernel;
    if (ph__map_get(&capture->kernels, key))
        return true;
    if (!ph__map_put(&capture->kernels, key, kernel))
        return false;
    ph_kernel_retain(kernel);
    return true;
}

/* Open, or over and being read. */
static ph__capture *find_locked(const ph_device *device, uint64_t capture_id)
{
    for (size_t i = 0; i < device->captures.count; i++)
        if (device->captures.at[i]->id == capture_id)
            return device->captures.at[i];
    ph__capture *capture = device->reading;
    while (capture && capture->id != capture_id)
        capture = capture->next_reading;
    return capture;
}

bool ph__capture_keep_kernel(ph_stream *stream, ph_kernel *kernel, uint64_t capture_id)
{
    ph_device *device = stream->device;
    bool ours = false, kept = true;
    if (atomic_load_explicit(&kernel->kept_in, memory_order_relaxed) == capture_id)
        return true;
    pthread_mutex_lock(&device->capture_lock);
    ph__capture *capture = find_locked(device, capture_id);
    ours = capture != NULL;
    if (ours)
        kept = retain_kernel(capture, kernel);
    if (ours && kept)
        atomic_store_explicit(&kernel->kept_in, capture_id, memory_order_relaxed);
    pthread_mutex_unlock(&device->capture_lock);
    if (!ours) {                                          /* somebody else's, or over and read */
        (void)ph__capture_is_foreign(stream, capture_id); /* which is remembered */
        device->driver->kernel_keep(kernel->handle);
    }
    return kept;
}

bool ph__capture_keep_event(ph_device *device, ph_event *event, uint64_t capture_id)
{
    pthread_mutex_lock(&device->capture_lock);
    ph__capture *capture = find_locked(device, capture_id);
    uint64_t key = (uintptr_t)event;
    bool kept = true;
    if (capture && !ph__map_get(&capture->events, key)) {
        kept = ph__map_put(&capture->events, key, event);
        if (kept)
            ph__event_retain(event);
    }
    pthread_mutex_unlock(&device->capture_lock);
    return kept;
}

ph__map ph__capture_take_events(ph__capture *capture)
{
    ph__map events = capture->events;
    capture->events = (ph__map){0};
    return events;
}

void ph__device_defer(ph_device *device, ph__deferred *item)
{
    pthread_mutex_lock(&device->capture_lock);
    bool wait = atomic_load(&device->open_captures) != 0;
    if (wait) {
        item->next = NULL;
        if (device->deferred_last)
            device->deferred_last->next = item;
        else
            device->deferred_first = item;
        device->deferred_last = item;
    }
    pthread_mutex_unlock(&device->capture_lock);
    if (!wait)
        item->fn(item);
}
