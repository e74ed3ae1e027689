/* SPDX-License-Identifier: MIT */
/* device/stream.h: what the files of this layer share about streams and events. */
#ifndef PH_DEVICE_STREAM_H
#define PH_DEVICE_STREAM_H
#include "device/device.h"

/* Makes the device's default stream out of the driver's. */
void ph__stream_init_default(ph_device *device);
/* The call's checks on an event: not NULL, and of this device when device is not NULL (WRONG_DEVICE). */
ph_status ph__event_check(const ph_event *event, const ph_device *device, const char *call);
/* Around the submission of work, given the row for the legacy default stream beside blocking captures: PH_OK
 * when the stream is another one, or no open capture contains a blocking stream; none can begin then before
 * leave, so that the work cannot kill it. The call in between must not block. After a failure there is no
 * leave. */
ph_status ph__legacy_enter(ph_stream *stream, ph__rule rule);
void ph__legacy_leave(ph_stream *stream);
/* The check alone, for work that may block or run user code as it is submitted. */
ph_status ph__legacy_check(ph_stream *stream, ph__rule rule);
#endif
