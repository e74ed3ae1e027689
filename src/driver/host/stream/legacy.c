/* SPDX-License-Identifier: MIT */
/* driver/host/stream/legacy.c: the implicit order of the legacy default stream and blocking
 * streams. */
#include "driver/host/stream/legacy.h"
#include "driver/host/stream/command.h"
#include "driver/host/stream/queue.h"
#include "driver/host/stream/wait.h"

/* Under streams_lock. Makes `later` wait for all that was submitted to `earlier` so far; *number
 * is then the last of that. */
static int chain_streams(ph__host_stream *earlier, ph__host_stream *later, unsigned *number)
{
    int result = ph__host_queue_start(earlier);
    if (!result)
        result = ph__host_queue_start(later);
    ph__host_marker *marker = result ? NULL : ph__host_marker_create(earlier->device);
    ph__host_command *signal = marker ? ph__host_queue_marker_command(earlier, NULL, marker) : NULL;
    ph__host_command *wait = signal ? ph__host_queue_marker_command(later, marker, NULL) : NULL;
    if (!wait) {
        if (signal)
            ph__host_command_drop(earlier, signal);
        ph__host_marker_release(marker);
        return result ? result : PH__R_OUT_OF_MEMORY;
    }
    ph__host_marker_retain(marker); /* one reference for each command */
    ph__spin_lock(&earlier->lock);
    bool alive = !earlier->exited;
    *number = alive ? ph__host_queue_append(earlier, signal)
                    : atomic_load_explicit(&earlier->submitted, memory_order_relaxed);
    bool wake = alive && ph__host_queue_claim_wake(earlier);
    ph__spin_unlock(&earlier->lock);
    if (alive) {
        ph__host_queue_appended(earlier, wake);
        ph__host_stream_submit(later, wait);
        return 0;
    }
    ph__host_command_drop(earlier, signal);
    ph__host_command_drop(later, wait);
    ph__host_marker_release(marker);
    ph__host_marker_release(marker);
    return 0;
}

static int order_legacy(ph__host_stream *legacy)
{
    ph__host_device *device = legacy->device;
    int result = 0;
    pthread_mutex_lock(&device->streams_lock);
    for (size_t i = 0; i < device->streams.count && !result; i++) {
        ph__host_stream *stream = device->streams.at[i];
        if (stream == legacy || (stream->flags & PH__STREAM_NON_BLOCKING))
            continue;
        unsigned last = atomic_load_explicit(&stream->submitted, memory_order_acquire);
        if (!ph__host_stream_done(stream, last) && stream->given_to_legacy != last)
            result = chain_streams(stream, legacy, &stream->given_to_legacy);
    }
    pthread_mutex_unlock(&device->streams_lock);
    return result;
}

int ph__host_stream_order_blocking(ph__host_stream *stream)
{
    if (stream->is_legacy)
        return order_legacy(stream);
    ph__host_stream *legacy = stream->device->legacy;
    unsigned last = atomic_load_explicit(&legacy->submitted, memory_order_acquire);
    if (ph__host_stream_done(legacy, last) ||
        atomic_load_explicit(&stream->received_from_legacy, memory_order_acquire) == last)
        return 0;
    pthread_mutex_lock(&stream->device->streams_lock);
    unsigned number = 0;
    int result = chain_streams(legacy, stream, &number);
    if (!result)
        atomic_store_explicit(&stream->received_from_legacy, number, memory_order_release);
    pthread_mutex_unlock(&stream->device->streams_lock);
    return result;
}

int ph__host_stream_enter(ph__host_stream *stream)
{
    int result = ph__host_wait_check();
    if (!result)
        result = ph__host_stream_order(stream);
    return result ? result : ph__host_queue_ensure_thread(stream);
}
