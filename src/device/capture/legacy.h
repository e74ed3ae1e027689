/* SPDX-License-Identifier: MIT */
/* device/capture/legacy.h: calls on the legacy default stream beside captures with blocking
 * streams. */
#ifndef PH_DEVICE_CAPTURE_LEGACY_H
#define PH_DEVICE_CAPTURE_LEGACY_H
#include "device/handles/device.h"
#include "driver/rules.h"

/* Around the submission of work, given the row for the legacy default stream beside blocking
 * captures: PH_OK when the stream is another one, or no open capture contains a blocking stream;
 * none can begin then before leave, so that the work cannot kill it. The call in between may
 * block: captures without such streams go on beside it. After a failure there is no leave. */
ph_status ph__legacy_enter(ph_stream *stream, ph__rule rule);
void ph__legacy_leave(ph_stream *stream);
/* After a capture was marked has_blocking, and before a blocking stream is in it at the driver:
 * waits for the calls that had entered before. capture_lock not held. */
void ph__legacy_wait(ph_device *device);

/* The check alone, for work that may block or run user code as it is submitted. */
ph_status ph__legacy_check(ph_stream *stream, ph__rule rule);
#endif
