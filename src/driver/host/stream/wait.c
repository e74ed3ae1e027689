/* SPDX-License-Identifier: MIT */
/* driver/host/stream/wait.c: waiting for the work of streams. */
#include "driver/host/stream/wait.h"
#include "driver/callback.h"
#include "driver/host/stream/chaos.h"

bool ph__host_stream_done(ph__host_stream *stream, unsigned last)
{
    return (int)(atomic_load_explicit(&stream->completed, memory_order_acquire) - last) >= 0;
}

typedef struct wait_for {
    ph__host_stream *stream;
    unsigned last;
} wait_for;

static bool wait_is_over(void *context)
{
    const wait_for *wait = context;
    return ph__host_stream_done(wait->stream, wait->last);
}

/* The number is there before the waiter counts. One that stays from a waiter that has left is too
 * early at worst: it wakes more often. */
static void enter_wait(ph__host_stream *stream, unsigned last)
{
    ph__spin_lock(&stream->lock);
    if (atomic_load(&stream->waiters) == 0 || (int)(last - atomic_load(&stream->awaited)) < 0)
        atomic_store(&stream->awaited, last);
    atomic_fetch_add(&stream->waiters, 1);
    ph__spin_unlock(&stream->lock);
}

static void leave_wait(ph__host_stream *stream)
{
    ph__spin_lock(&stream->lock);
    atomic_fetch_sub(&stream->waiters, 1);
    ph__spin_unlock(&stream->lock);
}

void ph__host_queue_wait(ph__host_stream *stream, unsigned last)
{
    wait_for wait = {stream, last};
    if (ph__host_stream_done(stream, last))
        return;
    if (stream->device->chaos) {
        ph__host_chaos_wait(stream->device->chaos, wait_is_over, &wait);
        return;
    }
    for (unsigned i = 0; i < stream->device->spins; i++) {
        if (ph__host_stream_done(stream, last))
            return;
        ph__pause();
    }
    enter_wait(stream, last);
    for (unsigned seen; (int)((seen = atomic_load(&stream->completed)) - last) < 0;)
        ph__futex_wait(&stream->completed, seen, -1);
    leave_wait(stream);
}

int ph__host_wait_check(void)
{
    return ph__driver_refuses() ? ph__driver_refuse_callback() : 0;
}

/* Under streams_lock: the first stream created after number `id`. */
static ph__host_stream *stream_after(ph__host_device *device, uint64_t id)
{
    size_t low = 0, high = device->streams.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (device->streams.at[middle]->id > id)
            high = middle;
        else
            low = middle + 1;
    }
    return low < device->streams.count ? device->streams.at[low] : NULL;
}

void ph__host_streams_wait(ph__host_device *device)
{
    uint64_t id = 0;
    pthread_mutex_lock(&device->streams_lock);
    for (ph__host_stream *stream; (stream = stream_after(device, id));) {
        id = stream->id;
        stream->users++;
        pthread_mutex_unlock(&device->streams_lock);
        ph__host_queue_wait(stream, atomic_load_explicit(&stream->submitted, memory_order_acquire));
        pthread_mutex_lock(&device->streams_lock);
        stream->users--;
    }
    pthread_mutex_unlock(&device->streams_lock);
}
