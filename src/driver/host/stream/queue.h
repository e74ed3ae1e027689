/* SPDX-License-Identifier: MIT */
/* driver/host/stream/queue.h: a stream's queue of commands, its thread, and waiting for it. */
#ifndef PH_DRIVER_HOST_STREAM_QUEUE_H
#define PH_DRIVER_HOST_STREAM_QUEUE_H
#include "driver/host/stream/marker.h"
#include "driver/host/stream/stream.h"

/* A command is the first member of what it runs. The stream owns it until run returns, which may
 * free or recycle it. */
struct ph__host_command {
    void (*run)(ph__host_command *command); /* on the stream's thread, no lock held; may block */
    ph__host_command *next;
    ph__host_marker *wait, *signal; /* the stream's own; run is NULL for those two kinds */
};

/* Appends. Never fails, allocates nothing; the stream was entered before. Returns the command's
 * number, for ph__host_queue_wait. */
unsigned ph__host_stream_submit(ph__host_stream *stream, ph__host_command *command);
/* Makes the stream wait for / signal a marker (which it retains). 2 when out of memory. */
int ph__host_stream_wait_marker(ph__host_stream *stream, ph__host_marker *marker);
int ph__host_stream_signal_marker(ph__host_stream *stream, ph__host_marker *marker);
/* When the stream is idle (nothing queued or running, not under chaos): marks it busy and
 * returns true; the caller then runs its work itself and calls leave_inline. Work that others
 * submit meanwhile queues behind it. */
bool ph__host_stream_try_inline(ph__host_stream *stream);
void ph__host_stream_leave_inline(ph__host_stream *stream);

/* Command number `last` and all before it are done; wait blocks until then. */
bool ph__host_stream_done(ph__host_stream *stream, unsigned last);
void ph__host_queue_wait(ph__host_stream *stream, unsigned last);
void ph__host_streams_wait(ph__host_device *device); /* all work submitted before to any stream */

/* Recycled memory for a stream's commands, PH__HOST_COMMAND_BYTES each, contents undefined. NULL
 * when out of memory. */
enum {
    PH__HOST_COMMAND_BYTES = 448
};
void *ph__host_command_take(ph__host_stream *stream);
void ph__host_command_finish(ph__host_stream *stream, void *command); /* by its run function */
/* the command was never submitted */
void ph__host_command_drop(ph__host_stream *stream, void *command);

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
