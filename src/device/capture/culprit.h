/* SPDX-License-Identifier: MIT */
/* device/capture/culprit.h: naming what killed a capture. */
#ifndef PH_DEVICE_CAPTURE_CULPRIT_H
#define PH_DEVICE_CAPTURE_CULPRIT_H
#include "device/handles/captures.h"

/* Fails a driver call on a stream: as ph__driver_fail, but for 901, where the
 * message names what killed the capture, if that is known. */
ph_status ph__stream_fail(int result, const ph_stream *stream, const char *driver_call,
                          const char *format, ...) PH_PRINTF(4, 5);
/* The end of a capture failed with 901: the record names the culprit, its call and number, where
 * they are known. */
ph_status ph__capture_fail_dead(ph__capture *capture, const char *call);
/* Says to the log, once, what killed the capture, with the whole backtrace. No lock held. */
void ph__capture_report(ph__capture *capture);
/* From now on the end of the process says it of captures that are open then, and dead. */
void ph__captures_watch_exit(void);
/* Puts behind the record's message which call killed the open capture of the calling thread
 * (any: of any thread), if one is dead. */
void ph__error_add_culprit(bool any);
#endif
