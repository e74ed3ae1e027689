/* SPDX-License-Identifier: MIT */
/* device/capture/outside.c: work that a thread submits while it captures, to streams that are not
 * in the capture. */
#include "device/capture/outside.h"
#include "base/line.h"
#include "base/sync.h"
#include "device/handles/device.h"

/* Under capture_lock: the newest capture of the thread, unless the stream is known to be in one.
 * Its calls may be meant for any capture of its own. */
static ph__capture *find_own(const ph_stream *stream)
{
    const ph_device *device = stream->device;
    uint64_t me = ph__thread_id();
    ph__capture *own = NULL;
    for (size_t i = 0; i < device->captures.count; i++) {
        ph__capture *capture = device->captures.at[i];
        if (capture->stream == stream || ph__map_get(&capture->fork_of, (uintptr_t)stream))
            return NULL;
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
    }
}

/* Streams that join by the driver's own calls are known to the driver alone. */
void ph__outside_add(ph_stream *stream, const char *call)
{
    ph_device *device = stream->device;
    pthread_mutex_lock(&device->capture_lock);
    bool maybe = find_own(stream) != NULL;
    pthread_mutex_unlock(&device->capture_lock);
    if (!maybe || !ph__stream_is_free(stream))
        return;
    pthread_mutex_lock(&device->capture_lock);
    note_call(find_own(stream), stream, call);
    pthread_mutex_unlock(&device->capture_lock);
}

bool ph__outside_describe(char *out, size_t size, ph__capture *capture)
{
    pthread_mutex_lock(&capture->device->capture_lock);
    unsigned calls = capture->outside;
    const char *first = capture->outside_call;
    const void *stream = capture->outside_stream;
    pthread_mutex_unlock(&capture->device->capture_lock);
    if (calls == 0)
        return false;
    ph__line_format(out, size, "%s%s on stream %p", calls > 1 ? "first " : "", first, stream);
    return true;
}
