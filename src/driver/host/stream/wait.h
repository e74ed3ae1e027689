/* SPDX-License-Identifier: MIT */
/* driver/host/stream/wait.h: waiting for the work of streams. */
#ifndef PH_DRIVER_HOST_STREAM_WAIT_H
#define PH_DRIVER_HOST_STREAM_WAIT_H
#include "driver/host/stream/stream.h"

/* Command number `last` and all before it are done; wait blocks until then. */
bool ph__host_stream_done(ph__host_stream *stream, unsigned last);
void ph__host_queue_wait(ph__host_stream *stream, unsigned last);
/* Before a wait: 800 where the calling thread runs a stream's work itself. The wait could be one
 * for that work. */
int ph__host_wait_check(void);
void ph__host_streams_wait(ph__host_device *device); /* all work submitted before to any stream */
#endif
