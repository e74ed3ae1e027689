/* SPDX-License-Identifier: MIT */
/* driver/host/stream/legacy.h: the implicit order of the legacy default stream and
 * blocking streams. */
#ifndef PH_DRIVER_HOST_STREAM_LEGACY_H
#define PH_DRIVER_HOST_STREAM_LEGACY_H
#include "driver/host/stream/stream.h"

/* Order against the legacy default stream, and a thread for the queue: to be
 * called before submitting work. 0, 2, or 800 from within the work of a stream. */
int ph__host_stream_enter(ph__host_stream *stream);
/* The first half of it alone, for work that may end up running inline. Inline where a stream is
 * ordered against none. */
int ph__host_stream_order_blocking(ph__host_stream *stream);
static inline int ph__host_stream_order(ph__host_stream *stream)
{
    return !stream->is_legacy && (stream->flags & PH__STREAM_NON_BLOCKING)
               ? 0
               : ph__host_stream_order_blocking(stream);
}
#endif
