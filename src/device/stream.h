/* SPDX-License-Identifier: MIT */
/* device/stream.h: what the files of this layer share about streams and events. */
#ifndef PH_DEVICE_STREAM_H
#define PH_DEVICE_STREAM_H
#include "device/device.h"

/* Makes the device's default stream out of the driver's. */
void ph__stream_init_default(ph_device *device);
/* The call's checks on an event: not NULL, and of this device when device is not NULL (WRONG_DEVICE). */
ph_status ph__event_check(const ph_event *event, const ph_device *device, const char *call);
/* The row to check before work is submitted to the device's legacy default stream, given the row for it
 * beside blocking captures: PH_OK when no open capture contains a blocking stream. */
ph_status ph__legacy_check(ph_stream *stream, ph__rule rule);
#endif
