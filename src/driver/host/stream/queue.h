/* SPDX-License-Identifier: MIT */
/* driver/host/stream/queue.h: a stream's queue of commands, and its thread. */
#ifndef PH_DRIVER_HOST_STREAM_QUEUE_H
#define PH_DRIVER_HOST_STREAM_QUEUE_H
#include "driver/host/stream/command.h"

/* Appends. Never fails, allocates nothing; the stream was entered before. Returns the command's
 * number, for ph__host_queue_wait. */
unsigned ph__host_stream_submit(ph__host_stream *stream, ph__host_command *command);
/* Makes the stream wait for / signal a marker (which it retains). 2 when out of memory. */
int ph__host_stream_wait_marker(ph__host_stream *stream, ph__host_marker *marker);
int ph__host_stream_signal_marker(ph__host_stream *stream, ph__host_marker *marker);
/* When the stream is idle (nothing queued or running, not under chaos): marks it busy and
 * returns true; the caller then runs its work itself and calls leave_inline. Work that others
 * submit meanwhile queues behind it. */
static inline bool ph__host_stream_try_inline(ph__host_stream *stream)
{
    if (stream->device->chaos)
        return false;
    ph__spin_lock(&stream->lock);
    bool idle = !stream->running && !atomic_load_explicit(&stream->head, memory_order_relaxed);
    if (idle) {
        stream->running = true;
        atomic_fetch_add_explicit(&stream->submitted, 1, memory_order_release);
    }
    ph__spin_unlock(&stream->lock);
    return idle;
}
void ph__host_stream_leave_inline(ph__host_stream *stream);

/* One step of the chaos scheduler on this stream: runnable: it has a command that needs not
 * wait; run_one runs that. */
bool ph__host_stream_runnable(ph__host_stream *stream);
void ph__host_stream_run_one(ph__host_stream *stream);

/* stop: the thread ends when the work is done. free: waits for that. For device_close and
 * reaping. */
void ph__host_stream_stop(ph__host_stream *stream);
void ph__host_stream_free(ph__host_stream *stream);

/* ---- for files that append to a queue themselves ---- */
/* Gives the stream its thread if it needs one; start: under streams_lock. 0 or 2. */
int ph__host_queue_start(ph__host_stream *stream);
int ph__host_queue_ensure_thread(ph__host_stream *stream);
/* Under the stream's lock; then, in this order: whether its thread must be woken, and, the lock
 * given up, what follows a submission. */
unsigned ph__host_queue_append(ph__host_stream *stream, ph__host_command *command);
bool ph__host_queue_claim_wake(ph__host_stream *stream);
void ph__host_queue_appended(ph__host_stream *stream, bool wake);
/* A command that waits for, or signals, a marker, whose reference it takes over once it is
 * submitted. NULL when out of memory. */
ph__host_command *ph__host_queue_marker_command(ph__host_stream *stream, ph__host_marker *wait,
                                                ph__host_marker *signal);
#endif
