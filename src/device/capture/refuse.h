/* SPDX-License-Identifier: MIT */
/* device/capture/refuse.h: refusing a call before it reaches the driver, so that captures
 * survive. */
#ifndef PH_DEVICE_CAPTURE_REFUSE_H
#define PH_DEVICE_CAPTURE_REFUSE_H
#include "device/handles/device.h"
#include "driver/rules.h"

/* The public column of the table for the calling thread and every open capture of the device:
 * PH_OK, or CAPTURE with the number and a message that names the call, the capture and the
 * remedy. The captures survive. */
ph_status ph__rule_check(ph_device *device, ph__rule rule);
const char *ph__capture_mode_name(ph_capture_mode mode); /* as the docs write it */
/* The refusal of the row for one capture (by id), for calls that know which capture they would
 * disturb. */
ph_status ph__rule_refuse(ph_device *device, ph__rule rule, uint64_t capture_id);

/* Calls a driver entry with the calling thread's capture mode exchanged to relaxed: for what is
 * legal then, and for what the public rules have let pass, which a capture that begins at this
 * moment must survive. */
void ph__relaxed_begin(ph_device *device, ph_capture_mode *saved);
void ph__relaxed_end(ph_device *device, ph_capture_mode saved);
#endif
