/* SPDX-License-Identifier: MIT */
/* driver/host/stream/legacy.h: the implicit order of the legacy default stream and
 * blocking streams. */
#ifndef PH_DRIVER_HOST_STREAM_LEGACY_H
#define PH_DRIVER_HOST_STREAM_LEGACY_H
#include "driver/host/stream/stream.h"

/* Order against the legacy default stream, and a thread for the queue: to be
 * called before submitting work. 0, 2, or 800 from within the work of a stream. */
int ph__host_stream_enter(ph__host_stream *stream);
/* The first half of it alone, for work that may end up running inline. */
int ph__host_stream_order(ph__host_stream *stream);
#endif
