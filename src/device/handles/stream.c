/* SPDX-License-Identifier: MIT */
/* device/handles/stream.c: streams: their references, and the capture that they are in. */
#include "device/handles/stream.h"
#include "base/ended.h"
#include "device/handles/captures.h"
#include "device/handles/hold.h"
#include <stddef.h>

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
                               PH__NAME_STREAM_GET_CAPTURE_INFO,
                               "%s: the stream was destroyed before this call; keep it until its "
                               "last use, or create another",
                               call);
    return ph__device_check(stream->device, call);
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

ph_stream *ph__stream_retain(ph_stream *stream)
{
    atomic_fetch_add_explicit(&stream->references, 1, memory_order_relaxed);
    return stream;
}

static void destroy_handle(ph__deferred *item)
{
    ph_stream *stream = (ph_stream *)((char *)item - offsetof(ph_stream, release));
    /* The handle behind a wrapped one may be the device's own default stream. */
    if (stream->handle != stream->device->default_stream.handle)
        stream->device->driver->stream_destroy(stream->handle);
    ph__ended_put(stream); /* `destroyed` is set */
}

void ph__stream_release(ph_stream *stream)
{
    if (atomic_fetch_sub_explicit(&stream->references, 1, memory_order_acq_rel) != 1)
        return;
    stream->release.fn = destroy_handle;
    if (ph__stream_capture_id(stream) != 0)
        ph__device_defer(stream->device, &stream->release);
    else
        destroy_handle(&stream->release);
}

ph_device *ph_stream_device(const ph_stream *stream)
{
    return stream && !atomic_load_explicit(&stream->destroyed, memory_order_relaxed)
               ? stream->device
               : NULL;
}

int ph_stream_priority(const ph_stream *stream)
{
    return stream ? stream->priority : 0;
}

bool ph_stream_is_capturing(const ph_stream *stream)
{
    return stream && !atomic_load_explicit(&stream->destroyed, memory_order_relaxed) &&
           ph__stream_capture_id(stream) != 0;
}
