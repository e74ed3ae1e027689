/* SPDX-License-Identifier: MIT */
/* device/handles/hold.h: keeping the handle of a stream that its user may be destroying. */
#ifndef PH_DEVICE_HANDLES_HOLD_H
#define PH_DEVICE_HANDLES_HOLD_H
#include "device/handles/device.h"

/* Around a short driver call on a retained stream that its user may be destroying on another
 * thread: a wrapped one's handle stays until unhold. Or hold capture_lock, or a pool's replay
 * lock. */
static inline void ph__stream_hold(const ph_stream *stream)
{
    if (stream->wrapped)
        pthread_mutex_lock(&stream->device->capture_lock);
}
static inline void ph__stream_unhold(const ph_stream *stream)
{
    if (stream->wrapped)
        pthread_mutex_unlock(&stream->device->capture_lock);
}
#endif
