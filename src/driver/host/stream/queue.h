/* SPDX-License-Identifier: MIT */
/* driver/host/stream/queue.h: the inside of a stream's queue, for the files that append to it. */
#ifndef PH_DRIVER_HOST_STREAM_QUEUE_H
#define PH_DRIVER_HOST_STREAM_QUEUE_H
#include "driver/host/device/host.h"

/* Gives the stream its thread if it needs one. Under streams_lock. 0 or 2. */
int ph__host_queue_start(ph__host_stream *stream);
/* Under the stream's lock; then, in this order: whether its thread must be woken, and, the lock
 * given up, what follows a submission. */
unsigned ph__host_queue_append(ph__host_stream *stream, ph__host_command *command);
bool ph__host_queue_claim_wake(ph__host_stream *stream);
void ph__host_queue_appended(ph__host_stream *stream, bool wake);
/* A command that waits for, or signals, a marker, whose reference it takes over once it is
 * submitted. NULL when out of memory. */
ph__host_command *ph__host_queue_marker_command(ph__host_stream *stream, ph__host_marker *wait,
                                                ph__host_marker *signal);
void ph__host_scratch_free(ph__host_scratch *scratch);
#endif
