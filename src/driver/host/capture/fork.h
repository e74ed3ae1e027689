/* SPDX-License-Identifier: MIT */
/* driver/host/capture/fork.h: events that are recorded in a capture, and streams that
 * wait for them. */
#ifndef PH_DRIVER_HOST_CAPTURE_FORK_H
#define PH_DRIVER_HOST_CAPTURE_FORK_H
#include "driver/host/resource/event.h"

/* event_record on a capturing stream, and stream_wait_event where the event or the stream is in
 * a capture (else *handled = false and nothing was done). */
int ph__host_capture_event_record(ph__host_event *event, ph__host_stream *stream);
int ph__host_capture_wait(bool *handled, ph__host_stream *stream, ph__host_event *event, int flags);
#endif
