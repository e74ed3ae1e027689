/* SPDX-License-Identifier: MIT */
/* device/capture/outside.c: work that a thread submits while it captures, to streams that are not
 * in the capture. */
#include "device/capture/outside.h"
#include "base/line.h"
#include "base/sync.h"
#include "device/handles/device.h"

/* Under capture_lock: the newest capture of the thread on the device. Its calls may be meant for
 * any capture of its own. NULL: none, or the stream is known to be in one. */
static ph__capture *find_own(bool *inside, const ph_device *device, const ph_stream *stream)
{
    uint64_t me = ph__thread_id();
    ph__capture *own = NULL;
    *inside = false;
    for (size_t i = 0; i < device->captures.count; i++) {
        ph__capture *capture = device->captures.at[i];
        if (capture->stream == stream || ph__map_get(&capture->fork_of, (uintptr_t)stream)) {
            *inside = true;
            return NULL;
        }
        if (capture->owner_thread == me)
            own = capture;
    }
    return own;
}

static void note_call(ph__capture *capture, const ph_stream *stream, const char *call)
{
    if (capture && capture->outside++ == 0) {
        capture->outside_call = call;
        capture->outside_stream = stream;
        capture->outside_elsewhere = stream->device != capture->device;
    }
}

/* Streams that join by the driver's own calls are known to the driver alone. *done: nothing is
 * left to do on other devices. */
static void add_on(bool *done, ph_device *device, const ph_stream *stream, const char *call)
{
    if (atomic_load_explicit(&device->open_captures, memory_order_relaxed) == 0)
        return;
    bool inside;
    pthread_mutex_lock(&device->capture_lock);
    bool maybe = find_own(&inside, device, stream) != NULL;
    pthread_mutex_unlock(&device->capture_lock);
    *done = maybe || inside;
    if (!maybe || !ph__stream_is_free(stream))
        return;
    pthread_mutex_lock(&device->capture_lock);
    note_call(find_own(&inside, device, stream), stream, call);
    pthread_mutex_unlock(&device->capture_lock);
}

void ph__outside_add(ph_stream *stream, const char *call)
{
    bool done = false;
    add_on(&done, stream->device, stream, call);
    ph_device *device = done ? NULL : ph__device_next_open(NULL);
    while (device) {
        if (device != stream->device && !done)
            add_on(&done, device, stream, call);
        ph_device *next = done ? NULL : ph__device_next_open(device);
        ph_device_release(device);
        device = next;
    }
}

bool ph__outside_describe(char *out, size_t size, ph__capture *capture)
{
    pthread_mutex_lock(&capture->device->capture_lock);
    unsigned calls = capture->outside;
    const char *first = capture->outside_call;
    const void *stream = capture->outside_stream;
    bool elsewhere = capture->outside_elsewhere;
    pthread_mutex_unlock(&capture->device->capture_lock);
    if (calls == 0)
        return false;
    ph__line_format(out, size, "%s%s on stream %p%s", calls > 1 ? "first " : "", first, stream,
                    elsewhere ? " of another device" : "");
    return true;
}
