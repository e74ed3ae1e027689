/* SPDX-License-Identifier: MIT */
/* driver/host/device/stream.c: the stream entries of the driver's table. */
#include "driver/host/capture/capture.h"
#include "driver/host/capture/fork.h"
#include "driver/host/stream/chaos.h"
#include "driver/host/stream/entries.h"
#include "driver/host/stream/legacy.h"
#include "driver/host/stream/queue.h"
#include "driver/host/stream/wait.h"
#include <string.h>

static ph__host_stream *stream_of(ph__drv_stream *handle)
{
    return (ph__host_stream *)handle;
}

ph__drv_stream *ph__host_stream_default(ph__drv_device *device)
{
    return (ph__drv_stream *)((ph__host_device *)device)->legacy;
}

static bool is_over(ph__host_stream *stream)
{
    if (!stream->destroyed || stream->users > 0)
        return false;
    if (stream->device->chaos)
        return ph__host_stream_done(stream,
                                    atomic_load_explicit(&stream->submitted, memory_order_acquire));
    ph__spin_lock(&stream->lock);
    bool over = stream->exited;
    ph__spin_unlock(&stream->lock);
    return over;
}

/* Frees destroyed streams whose work is done. Under streams_lock. */
static void free_ended_streams(ph__host_device *device)
{
    ph__host_stream **at = device->streams.at;
    size_t kept = 0, next = 0, left = device->destroyed_streams;
    for (; left > 0; next++) {
        left -= at[next]->destroyed;
        if (is_over(at[next])) {
            ph__host_stream_free(at[next]);
            device->destroyed_streams--;
        } else {
            at[kept++] = at[next];
        }
    }
    if (kept < next)
        memmove(at + kept, at + next, (device->streams.count - next) * sizeof *at);
    device->streams.count -= next - kept;
}

int ph__host_stream_create(ph__drv_stream **out, ph__drv_device *handle, int flags, int priority)
{
    ph__host_device *device = (ph__host_device *)handle;
    if (flags != PH__STREAM_BLOCKING && flags != PH__STREAM_NON_BLOCKING)
        return PH__R_INVALID_VALUE;
    int result = ph__host_rule(device, PH__RULE_STREAM_CREATE);
    if (result)
        return result;
    ph__host_stream *stream = ph__calloc(1, sizeof *stream);
    if (!stream)
        return PH__R_OUT_OF_MEMORY;
    stream->device = device;
    stream->flags = flags;
    stream->priority = priority;
    pthread_mutex_lock(&device->streams_lock);
    free_ended_streams(device);
    bool kept = ph__vec_push(&device->streams, stream);
    if (kept)
        stream->id = ++device->last_stream_id;
    pthread_mutex_unlock(&device->streams_lock);
    if (!kept) {
        ph__free(stream);
        return PH__R_OUT_OF_MEMORY;
    }
    atomic_fetch_add(&device->live_handles, 1);
    *out = (ph__drv_stream *)stream;
    return 0;
}

void ph__host_stream_destroy(ph__drv_stream *handle)
{
    ph__host_stream *stream = stream_of(handle);
    if (!stream || stream->is_legacy)
        return;
    ph__host_device *device = stream->device;
    if (atomic_load_explicit(&stream->capturing, memory_order_acquire))
        ph__host_capture_stream_gone(stream);
    atomic_fetch_sub(&device->live_handles, 1);
    ph__host_stream_stop(stream);
    pthread_mutex_lock(&device->streams_lock);
    stream->destroyed = true;
    device->destroyed_streams++;
    free_ended_streams(device);
    pthread_mutex_unlock(&device->streams_lock);
}

static int apply_rule(ph__host_stream *stream, ph__rule capturing, ph__rule other)
{
    if (atomic_load_explicit(&stream->capturing, memory_order_acquire))
        return ph__host_rule_stream(stream, capturing, other);
    return ph__host_rule(stream->device, other);
}

static int wait_for_all(ph__host_stream *stream)
{
    unsigned last = atomic_load_explicit(&stream->submitted, memory_order_acquire);
    if (ph__host_stream_done(stream, last))
        return 0;
    int result = ph__host_wait_check();
    if (!result)
        ph__host_queue_wait(stream, last);
    return result;
}

int ph__host_stream_synchronize(ph__drv_stream *handle)
{
    ph__host_stream *stream = stream_of(handle);
    int result = apply_rule(stream, PH__RULE_STREAM_SYNC_CAPTURING, PH__RULE_STREAM_SYNC_OTHER);
    if (!result && stream->is_legacy)
        result = ph__host_stream_order(stream);
    return result ? result : wait_for_all(stream);
}

int ph__host_stream_wait(ph__drv_stream *handle)
{
    ph__host_stream *stream = stream_of(handle);
    if (atomic_load_explicit(&stream->capturing, memory_order_acquire))
        return PH__R_CAPTURE_UNSUPPORTED;
    return wait_for_all(stream);
}

int ph__host_stream_query(ph__drv_stream *handle)
{
    ph__host_stream *stream = stream_of(handle);
    int result = apply_rule(stream, PH__RULE_STREAM_QUERY_CAPTURING, PH__RULE_STREAM_QUERY_OTHER);
    if (!result && stream->is_legacy)
        result = ph__host_stream_order(stream);
    if (result)
        return result;
    unsigned last = atomic_load_explicit(&stream->submitted, memory_order_acquire);
    if (stream->device->chaos && !ph__host_stream_done(stream, last))
        ph__host_chaos_query(stream->device->chaos);
    return ph__host_stream_done(stream, last) ? 0 : PH__R_NOT_READY;
}

int ph__host_stream_wait_event(ph__drv_stream *handle, ph__drv_event *event_handle, int flags)
{
    ph__host_stream *stream = stream_of(handle);
    ph__host_event *event = (ph__host_event *)event_handle;
    if (flags != PH__EVENT_RECORD_DEFAULT && flags != PH__EVENT_RECORD_EXTERNAL)
        return PH__R_INVALID_VALUE;
    bool handled = false;
    int result = ph__host_capture_wait(&handled, stream, event, flags);
    if (result || handled)
        return result;
    result = ph__host_rule(stream->device, PH__RULE_WAIT_OTHER);
    if (result)
        return result;
    ph__host_marker *marker = ph__host_event_marker(event);
    if (!marker)
        return 0;
    result = ph__host_stream_order(stream);
    if (!result)
        result = ph__host_stream_wait_marker(stream, marker);
    ph__host_marker_release(marker);
    return result;
}
