/* SPDX-License-Identifier: MIT */
/* device/capture/forks.h: the streams that have joined a capture. */
#ifndef PH_DEVICE_CAPTURE_FORKS_H
#define PH_DEVICE_CAPTURE_FORKS_H
#include "device/handles/captures.h"

/* A stream waits in a capture for what was recorded on another one, and joins
 * it thereby. describe: of a capture that ended with work which is not joined, which stream's
 * that probably is. */
void ph__forks_wait(const ph_stream *stream, const ph_stream *on, uint64_t capture_id, bool joins);
void ph__forks_describe(char *out, size_t size, ph__capture *capture);
/* Of an open capture: whether a stream has work in it that the capture's stream is not ordered
 * behind; *out says which one. Streams that joined by calls of other code are not seen. */
ph_status ph__forks_find_unjoined(bool *found, char *out, size_t size, ph__capture *capture,
                                  const char *call);
#endif
