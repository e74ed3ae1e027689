/* SPDX-License-Identifier: MIT */
/* device/capture/capture.h: beginning and ending captures. */
#ifndef PH_DEVICE_CAPTURE_CAPTURE_H
#define PH_DEVICE_CAPTURE_CAPTURE_H
#include "device/handles/captures.h"

/* Refuses what must not reach the driver, tells the attachments (before_capture), begins,
 * registers. On failure nothing is open. */
ph_status ph__capture_begin(ph__capture *capture, ph_stream *stream, ph_capture_mode mode,
                            const char *call);

/* Ends it at the driver and closes the registration, whatever the outcome, except for the wrong
 * thread (CAPTURE, 908; drop false): then it stays open. drop: ends it for good from any thread
 * (abort): the driver's graph is destroyed, *graph is NULL, errors are not reported. Afterwards
 * runs deferred work if it was the last one, and the attachments' capture_ended. */
ph_status ph__capture_end(ph__drv_graph **graph, ph__capture *capture, bool drop, const char *call);

/* CAPTURE, 401, for a stream that is capturing already. */
ph_status ph__capture_check_free(const ph_stream *stream, const char *call);
#endif
