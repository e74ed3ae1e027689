/* SPDX-License-Identifier: MIT */
/* tests/support/killed.c: a call past the library. */
#include "support/killed.h"
#include "device/handles/device.h"

int t_synchronize_at_driver(ph_stream *stream)
{
    return stream->device->driver->stream_synchronize(stream->handle);
}
